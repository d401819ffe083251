package memory_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/rawstore"
)

// The conversations of a program that keeps its own, beside those that Spool
// runs: under keys of its choice, with metadata that is right in the same write.
func ExampleConversationStore() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	// sqlite:PATH, postgres://… and memory: work the same.
	where, err := rawstore.Open("file:"+filepath.Join(dir, "memory.json"), rawstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	port := memory.NewPersistedMemory(where, memory.RawID)
	defer port.Close()
	noon := func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	conversations := memory.NewConversationStore(port, memory.ConversationOptions{Now: noon})
	agents := memory.NewAgentSessionStore(port, memory.ConversationOptions{Now: noon})

	err = conversations.AppendMessages(ctx, "cli", agent.Message{ID: "1", Role: agent.RoleUser, Content: agent.Text("hi"), Timestamp: noon()})
	if err != nil {
		log.Fatal(err)
	}
	if err := conversations.RecordRequestMetrics(ctx, "cli", memory.RequestMetrics{PromptTokens: 12, CompletionTokens: 3}); err != nil {
		log.Fatal(err)
	}
	err = agents.Save(ctx, memory.AgentSession{AgentType: "researcher", AgentID: "r-1"})
	if err != nil {
		log.Fatal(err)
	}
	list, err := conversations.ListConversations(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range list {
		fmt.Println(c.Key, c.Metadata.MessageCount, c.Metadata.TotalTokens)
	}
	sessions, err := agents.List(ctx, "researcher")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sessions[0].AgentType, sessions[0].AgentID)
	// Output:
	// cli 1 15
	// researcher r-1
}

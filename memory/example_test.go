package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
)

// What Spool has run is read by keys, and what a program adds is there for the next
// turn. json:PATH instead keeps conversations of a program's own.
func Example_memoryByKeys() {
	ctx := context.Background()
	store, err := spool.OpenStore(ctx, "memory:") // as sqlite:PATH, postgres://… and file:DIR
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	r, err := store.Send(ctx, memorytest.Request("s1", "m1"))
	if err == nil {
		err = memorytest.RunTurns(ctx, store, r.ThreadID) // a worker does this
	}
	if err != nil {
		log.Fatal(err)
	}

	conversations := port.NewConversationStore(port.NewStore(store, port.StoreOptions{UserID: "u", Session: "s1"}), port.ConversationOptions{})
	err = conversations.AppendMessages(ctx, "default",
		agent.Message{ID: "n1", Role: agent.RoleUser, Content: agent.Text("and by the way?")},
		agent.Message{ID: "n2", Role: agent.RoleAssistant, Content: agent.Text("that, too")})
	if err != nil {
		log.Fatal(err)
	}
	c, err := conversations.GetConversation(ctx, "default")
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range c.Messages {
		fmt.Println(m.Role, m.Content)
	}
	// Output:
	// user text of m1
	// assistant answer
	// tool found
	// tool found
	// assistant answer
	// user and by the way?
	// assistant that, too
}

// Agents of your own, in code: one that answers, and one that it hands work to.
//
//	go run .    # needs a Temporal server: TEMPORAL_ADDRESS, or localhost:7233
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

var agents = []agent.SpecialistAgentConfig{
	{ // "default" answers people
		Name: "default", Stream: true,
		SystemPrompt: "You run a shop's help desk. Give every question about numbers to the accountant.",
	},
	{
		Name: "accountant", Description: "Works out sums.", Stream: true,
		SystemPrompt: "You work out sums with the calculator, and say how.",
		Tools:        []string{"calculator"}, MaxSteps: 10,
	},
}

const question = `script: call assign_task {"agent": "accountant", "task": "script: call calculator {\"expression\": \"12*49\"} ;; echo It is"} ;; say The accountant has worked it out.`

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	temporal, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Logger: sdklog.NewStructuredLogger(slog.Default())})
	if err != nil {
		return err
	}
	defer temporal.Close()
	store, err := spool.OpenStore(ctx, "memory:")
	if err != nil {
		return err
	}
	defer store.Close()
	tools, err := spool.NewTools(spool.BuiltinTools("")...)
	if err != nil {
		return err
	}
	worker, err := spool.NewWorker(ctx, spool.WorkerOptions{
		Store: store, Temporal: temporal, Model: spool.DemoModel(), Tools: tools, OwnAgents: agents,
		// At most one level of sub-agents, two at once, and 20 in a conversation.
		Policy: &agent.DelegationPolicy{MaxDepth: 1, MaxFanOut: 2, MaxDescendants: 20},
	})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()

	c := spool.NewClient(store, temporal, spool.ClientOptions{UserID: "me"})
	reply, err := c.Ask(ctx, memory.SendRequest{Content: agent.Text(question)}, spool.AskOptions{
		Update: func(u spool.Update) { // sub-agents have threads of their own
			for _, m := range u.Messages {
				if m.Role == agent.RoleAssistant && len(m.ToolCalls) == 0 {
					fmt.Printf("%s: %s\n", u.ThreadID, m.Content)
				}
			}
		},
	})
	if err == nil {
		var tree *spool.Node
		if tree, err = c.Trace(ctx, reply.ThreadID); err == nil {
			for _, child := range tree.Children {
				fmt.Println("handed to", child.Thread.AgentType, "with status", child.Link.TaskStatus)
			}
		}
	}
	stop()
	if err != nil {
		return err
	}
	return <-ended
}

package spool_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

func TestMain(m *testing.M) {
	code := m.Run()
	temporaltest.StopLocal()
	os.Exit(code)
}

// dial connects to a Temporal server, as client.Dial does.
func dial() client.Client {
	return temporaltest.Local(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

// wordTools has one tool that only reads and one that a person has to approve.
func wordTools() []agent.Tool {
	type word struct {
		Word string `json:"word" jsonschema:"the word"`
	}
	return []agent.Tool{
		spool.NewTool(agent.ToolSpec{Name: "look_up", Description: "Say what a word means.", ReadOnly: true, Repeatable: true},
			func(_ context.Context, _ agent.ToolRun, w word) agent.ToolResult {
				return agent.ToolOK(w.Word + ": a thing that thread is wound on")
			}),
		spool.NewTool(agent.ToolSpec{Name: "publish", Description: "Publish a word."},
			func(_ context.Context, r agent.ToolRun, w word) agent.ToolResult {
				// r.CallID is the same whenever this call runs again.
				return agent.ToolOK(w.Word + " is published")
			}),
	}
}

// start runs a worker on a store in memory until stop is called.
func start() (c *spool.Client, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	store, err := spool.OpenStore(ctx, "memory:")
	check(err)
	tools, err := spool.NewTools(wordTools()...)
	check(err)
	worker, err := spool.NewWorker(ctx, spool.WorkerOptions{
		Store: store, Temporal: dial(), Model: spool.DemoModel(), Tools: tools, Log: slog.New(slog.DiscardHandler),
		OwnAgents: []agent.SpecialistAgentConfig{{Name: "clerk", Description: "Publishes words.", SystemPrompt: "You publish words.", Stream: true}},
	})
	check(err)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return spool.NewClient(store, dial(), spool.ClientOptions{UserID: "ada"}), func() {
		cancel()
		check(<-ended)
		check(store.Close())
	}
}

// ask sends a message to a thread and waits for the answer.
func ask(c *spool.Client, r memory.SendRequest) spool.Reply {
	sent, err := c.Send(context.Background(), r)
	check(err)
	reply, err := c.Wait(context.Background(), sent.ThreadID, sent.TurnID, spool.WaitOptions{})
	check(err)
	return reply
}

// A worker with a tool of its own, on a store in memory. The demo model follows
// the script in the message; NewModel makes a real one.
func ExampleWorker() {
	ctx, cancel := context.WithCancel(context.Background())
	store, err := spool.OpenStore(ctx, "memory:")
	check(err)
	type word struct {
		Word string `json:"word" jsonschema:"the word"` // the tool's schema follows from this
	}
	tools, err := spool.NewTools(spool.NewTool(
		agent.ToolSpec{Name: "look_up", Description: "Say what a word means.", ReadOnly: true, Repeatable: true},
		func(_ context.Context, _ agent.ToolRun, w word) agent.ToolResult {
			return agent.ToolOK(w.Word + ": a thing that thread is wound on")
		},
	))
	check(err)
	worker, err := spool.NewWorker(ctx, spool.WorkerOptions{
		Store: store, Temporal: dial(), Model: spool.DemoModel(), Tools: tools, Log: slog.New(slog.DiscardHandler),
	})
	check(err)
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()

	c := spool.NewClient(store, dial(), spool.ClientOptions{UserID: "ada"})
	reply := ask(c, memory.SendRequest{Content: agent.Text(`script: call look_up {"word": "spool"} ;; echo It says:`)})
	fmt.Println(reply.Status)
	fmt.Println(reply.Response)

	cancel() // what is under way goes on in another worker
	check(<-ended)
	check(store.Close())
	// Output:
	// completed
	// It says:
	//
	// spool: a thing that thread is wound on
}

// Send returns once the message is safe. The same message id again is the same
// message, however often it is sent.
func ExampleClient_Send() {
	c, stop := start()
	defer stop()
	ctx := context.Background()
	message := memory.SendRequest{SessionID: "monday", MessageID: "m1", Content: agent.Text("script: say Hello, Ada.")}
	sent, err := c.Send(ctx, message)
	check(err)
	again, err := c.Send(ctx, message)
	check(err)
	fmt.Println(sent.ThreadID, again.Repeated, sent.TurnID == again.TurnID)

	reply, err := c.Wait(ctx, sent.ThreadID, sent.TurnID, spool.WaitOptions{})
	check(err)
	fmt.Println(reply.Status, reply.Response)
	// Output:
	// monday/default true true
	// completed Hello, Ada.
}

// Follow delivers what a thread emits, from any cursor on, also after the end.
func ExampleClient_Follow() {
	c, stop := start()
	defer stop()
	ctx := context.Background()
	sent, err := c.Send(ctx, memory.SendRequest{Content: agent.Text(`script: call look_up {"word": "spool"} ;; say Found it.`)})
	check(err)
	cursor := ""
	show := func(u spool.Update) error {
		cursor = u.Cursor // to go on from, if the connection breaks
		for _, m := range u.Messages {
			fmt.Printf("%s %q\n", m.Role, m.Content.String())
		}
		return nil
	}
	check(c.Follow(ctx, sent.ThreadID, "", spool.FollowOptions{UntilTurn: sent.TurnID}, show))
	check(c.Follow(ctx, sent.ThreadID, cursor, spool.FollowOptions{UntilIdle: true}, show)) // nothing is told twice
	// Output:
	// user "script: call look_up {\"word\": \"spool\"} ;; say Found it."
	// assistant ""
	// tool "spool: a thing that thread is wound on"
	// assistant "Found it."
}

// A tool that is not read-only asks a person first. The turn waits, for days if
// need be, and no worker has to be up when the decision is made.
func ExampleClient_Decide() {
	c, stop := start()
	defer stop()
	ctx := context.Background()
	reply := ask(c, memory.SendRequest{Content: agent.Text(`script: call publish {"word": "spool"} ;; echo Done:`)})
	fmt.Println(reply.Status, reply.Pending[0].ToolCalls[0].ToolName)

	_, err := c.Decide(ctx, memory.Decision{Target: reply.Pending[0].ApprovalID, Verdict: memory.Approve})
	check(err)
	reply, err = c.Wait(ctx, reply.ThreadID, reply.TurnID, spool.WaitOptions{})
	check(err)
	fmt.Println(reply.Status, reply.Response)
	// Output:
	// waiting_for_approval publish
	// completed Done:
	//
	// spool is published
}

// Ask sends, streams and waits in one call. What a person has to decide or answer, in
// sub-agents too, it asks the callbacks.
func ExampleClient_Ask() {
	c, stop := start()
	defer stop()
	message := agent.Text(`script: call assign_task {"agent": "clerk", "task": "script: call publish {\"word\": \"spool\"} ;; echo"} ;; ask Which one next? ;; echo Done:`)
	reply, err := c.Ask(context.Background(), memory.SendRequest{Content: message}, spool.AskOptions{
		Update: func(u spool.Update) {
			for _, m := range u.Messages { // u.Text has what streams before
				if m.Role == agent.RoleAssistant && len(m.ToolCalls) == 0 {
					fmt.Println(strings.TrimSpace(m.Content.String()))
				}
			}
		},
		Decide: func(_ context.Context, a spool.ApprovalRequest) (memory.Decision, error) {
			fmt.Println(a.Agent, "may", a.ToolCalls[0].ToolName)
			return memory.Decision{Verdict: memory.Approve}, nil
		},
		Answer: func(_ context.Context, q spool.QuestionRequest) (string, error) { return "bobbin", nil },
	})
	check(err)
	fmt.Println(reply.Status)
	// Output:
	// clerk may publish
	// spool is published
	// Done:
	//
	// bobbin
	// completed
}

// Fork begins a new conversation as another one began. The original is untouched.
func ExampleClient_Fork() {
	c, stop := start()
	defer stop()
	ctx := context.Background()
	ask(c, memory.SendRequest{SessionID: "tuesday", MessageID: "m1", Content: agent.Text("script: say one")})
	ask(c, memory.SendRequest{SessionID: "tuesday", MessageID: "m2", Content: agent.Text("script: say two")})

	fork, err := c.Fork(ctx, spool.ForkRequest{ThreadID: "tuesday/default", At: "m2", ConversationID: "what-if"})
	check(err)
	fmt.Println(fork.ThreadID, fork.Messages, fork.Status) // the second question has no answer there yet
	fmt.Println(ask(c, memory.SendRequest{ThreadID: fork.ThreadID, Content: agent.Text("script: say another two")}).Response)
	original, err := c.Show(ctx, "tuesday/default", false)
	check(err)
	fmt.Println(len(original.Messages), original.Messages[3].Content.String())
	// Output:
	// tuesday/what-if 3 cancelled
	// another two
	// 4 two
}

// Trace returns a conversation with the sub-agents below it.
func ExampleClient_Trace() {
	c, stop := start()
	defer stop()
	reply := ask(c, memory.SendRequest{Content: agent.Text(`script: call assign_task {"agent": "researcher", "task": "script: say four"} ;; say done`)})
	root, err := c.Trace(context.Background(), reply.ThreadID)
	check(err)
	for _, child := range root.Children {
		fmt.Println(child.Thread.AgentType, child.Thread.Status, child.Thread.Summary)
		fmt.Println(child.Link.TaskStatus, child.Link.Instruction, child.Thread.ParentThreadID == reply.ThreadID)
	}
	// Output:
	// researcher completed four
	// success script: say four true
}

// A tool of your own: the model may look up orders.
//
//	go run .                        # needs a Temporal server: TEMPORAL_ADDRESS, or localhost:7233
//	OPENAI_API_KEY=sk-... go run . "Where is order 7?"
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

// order is what the tool takes. Its JSON schema, which the model sees, follows from it.
type order struct {
	Number int `json:"number" jsonschema:"the order's number"`
}

var status = map[int]string{7: "on its way", 8: "delivered"}

// orderStatus only reads, so nobody is asked; it may run again, so a killed worker does no harm.
var orderStatus = spool.NewTool(
	agent.ToolSpec{Name: "order_status", Description: "Say where an order is.", ReadOnly: true, Repeatable: true},
	func(_ context.Context, _ agent.ToolRun, o order) agent.ToolResult {
		if s, ok := status[o.Number]; ok {
			return agent.ToolOK(fmt.Sprintf("order %d is %s", o.Number, s))
		}
		return agent.ToolFailed(agent.ErrInvalidInput, "there is no order %d", o.Number)
	})

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
	store, err := spool.OpenStore(ctx, "memory:") // or sqlite:PATH, postgres://…
	if err != nil {
		return err
	}
	defer store.Close()
	tools, err := spool.NewTools(orderStatus)
	if err != nil {
		return err
	}
	// The demo model follows a script in the message; with a key a real one answers.
	model, question := spool.DemoModel(), `script: call order_status {"number": 7} ;; echo I looked it up:`
	if key := os.Getenv("OPENAI_API_KEY"); key != "" {
		if model, err = spool.NewModel(spool.ModelOptions{APIKey: key, Model: "gpt-4o-mini"}); err != nil {
			return err
		}
		question = "Where is order 7?"
	}
	if len(os.Args) > 1 {
		question = os.Args[1]
	}
	worker, err := spool.NewWorker(ctx, spool.WorkerOptions{Store: store, Temporal: temporal, Model: model, Tools: tools})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()

	reply, err := spool.NewClient(store, temporal, spool.ClientOptions{UserID: "me"}).
		Ask(ctx, memory.SendRequest{Content: agent.Text(question)}, spool.AskOptions{})
	stop()
	if err != nil {
		return err
	}
	fmt.Println(reply.Response)
	return <-ended
}

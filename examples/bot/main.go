// A bot for a chat service such as Slack. The service is a stub: events are lines of
// JSON on standard input, what is posted goes to standard output.
//
//	echo '{"id": "1", "channel": "help", "thread": "t1", "user": "ada", "text": "script: say hello"}' | go run .
//
// A thread of the service is a session. Services deliver an event again when they are not
// sure: its id is the message's id, so it is answered once.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// event is a message as the service tells it.
type event struct {
	ID      string `json:"id"`
	Channel string `json:"channel"`
	Thread  string `json:"thread"`
	User    string `json:"user"`
	Text    string `json:"text"`
}

// service is what the bot needs of the chat service.
type service interface {
	Post(e event, text string)
}

type stub struct{ sync.Mutex }

// Post prints a message.
func (s *stub) Post(e event, text string) {
	s.Lock()
	defer s.Unlock()
	fmt.Printf("%s/%s to %s: %s\n", e.Channel, e.Thread, e.User, text)
}

func main() {
	if err := run(context.Background(), &stub{}); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, to service) error {
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
	worker, err := spool.NewWorker(ctx, spool.WorkerOptions{Store: store, Temporal: temporal, Model: spool.DemoModel(), Tools: tools})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()
	c := spool.NewClient(store, temporal, spool.ClientOptions{})
	var open sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			log.Print("not an event: ", err)
			continue
		}
		open.Go(func() { handle(ctx, c, to, e) })
	}
	open.Wait()
	stop()
	return <-ended
}

// handle answers an event, and has the person decide where a tool asks.
func handle(ctx context.Context, c *spool.Client, to service, e event) {
	reply, err := c.Ask(ctx, memory.SendRequest{
		UserID: e.User, SessionID: e.Channel + "-" + e.Thread, MessageID: e.ID, Content: agent.Text(e.Text), WhenBusy: memory.Queue,
	}, spool.AskOptions{Decide: func(_ context.Context, a spool.ApprovalRequest) (memory.Decision, error) {
		to.Post(e, "I may not run "+a.ToolCalls[0].ToolName+" here.") // buttons, in a real service
		return memory.Decision{Verdict: memory.Deny}, nil
	}})
	switch {
	case err != nil:
		to.Post(e, "This did not work: "+err.Error())
	case reply.Response != "":
		to.Post(e, reply.Response)
	default:
		to.Post(e, "The turn ended: "+reply.Status)
	}
}

// An approval service: a program of your own lists what agents want to do, and decides.
//
//	go run . 127.0.0.1:8090    # needs a Temporal server: TEMPORAL_ADDRESS, or localhost:7233
//	curl -d 'script: call refund {"order": 7} ;; echo Done:' 127.0.0.1:8090/ask
//	curl 127.0.0.1:8090/approvals
//	curl -d '{"verdict": "approve"}' 127.0.0.1:8090/approvals/ID
//	curl 127.0.0.1:8090/answer?thread=THREAD
//
// It asks nobody who they are: put that in front of it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

type refund struct {
	Order int `json:"order" jsonschema:"the order's number"`
}

// Without ReadOnly a person has to approve. r.CallID is the same whenever a call runs again.
var tool = spool.NewTool(agent.ToolSpec{Name: "refund", Description: "Pay an order back."},
	func(_ context.Context, r agent.ToolRun, args refund) agent.ToolResult {
		return agent.ToolOK(fmt.Sprintf("order %d is paid back", args.Order))
	})

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address string) error {
	temporal, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Logger: sdklog.NewStructuredLogger(slog.Default())})
	if err != nil {
		return err
	}
	store, err := spool.OpenStore(ctx, "memory:") // a store on disk keeps approvals for days
	if err != nil {
		return err
	}
	tools, err := spool.NewTools(tool)
	if err != nil {
		return err
	}
	worker, err := spool.NewWorker(ctx, spool.WorkerOptions{Store: store, Temporal: temporal, Model: spool.DemoModel(), Tools: tools})
	if err != nil {
		return err
	}
	go func() { log.Fatal(worker.Run(ctx)) }()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("serving", l.Addr())
	return http.Serve(l, routes(spool.NewClient(store, temporal, spool.ClientOptions{UserID: "desk"})))
}

func routes(c *spool.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ask", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			answer(w, nil, err)
			return
		}
		sent, err := c.Send(r.Context(), memory.SendRequest{Content: agent.Text(string(text))})
		answer(w, sent, err)
	})
	mux.HandleFunc("GET /approvals", func(w http.ResponseWriter, r *http.Request) {
		open, err := c.Approvals(r.Context(), "") // of all threads
		answer(w, open, err)
	})
	mux.HandleFunc("POST /approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		d := memory.Decision{Target: r.PathValue("id")}
		err := json.NewDecoder(r.Body).Decode(&d)
		if err != nil {
			answer(w, nil, err)
			return
		}
		done, err := c.Decide(r.Context(), d)
		answer(w, done, err)
	})
	mux.HandleFunc("GET /answer", func(w http.ResponseWriter, r *http.Request) {
		v, err := c.Show(r.Context(), r.FormValue("thread"), false)
		answer(w, v, err)
	})
	return mux
}

func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(v)
}

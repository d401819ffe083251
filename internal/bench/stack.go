package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const user = "bench"

// orchestrator is a template that asks nobody, so that any tool may be used.
const orchestrator = `---
name: orchestrator
description: measured
approval:
  shell: auto
---
You are being measured.
`

// stack is one installation of Spool on a server of its own.
type stack struct {
	bin      string
	spec     string // the store
	dir      string // home: the server's database and, unless spec says otherwise, the store
	work     string // workspace of the workers
	stub     *stub
	server   *process
	address  string
	store    memory.ConversationMemoryStore
	temporal client.Client
	client   *spool.Client
	env      []string // of the workers
	workers  []*process
}

// newStack starts a server and opens a store, without workers. An empty spec is a
// SQLite file of its own.
func newStack(ctx context.Context, spec, bin, dir string, model *stub) *stack {
	s := &stack{spec: spec, bin: bin, stub: model, dir: dir}
	if spec == "" {
		s.spec = "sqlite:" + filepath.Join(s.dir, "spool.db")
	}
	s.work = filepath.Join(s.dir, "work")
	agents := filepath.Join(s.dir, "agents")
	check(os.MkdirAll(s.work, 0o755))
	check(os.MkdirAll(agents, 0o755))
	check(os.WriteFile(filepath.Join(agents, "orchestrator.md"), []byte(orchestrator), 0o644))
	if err := attempt(func() { s.open(ctx) }); err != nil {
		s.close()
		check(err)
	}
	return s
}

func (s *stack) open(ctx context.Context) {
	s.startServer(ctx)
	s.store = must(spool.OpenStore(ctx, s.spec))
	s.temporal = must(client.Dial(client.Options{HostPort: s.address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))}))
	s.client = spool.NewClient(s.store, s.temporal, spool.ClientOptions{UserID: user})
	s.env = []string{
		"TEMPORAL_ADDRESS=" + s.address, "SPOOL_STORE=" + s.spec, "SPOOL_HOME=" + s.dir, "SPOOL_WORKSPACE=" + s.work, "SPOOL_USER=" + user,
		"OPENAI_BASE_URL=" + s.stub.url + "/v1", "OPENAI_API_KEY=bench", "SPOOL_MODEL=bench",
		"SPOOL_HEARTBEAT_TIMEOUT=2s", // as beside the server of `starter dev`
	}
}

// startServer starts the Temporal server and waits for its line that it is ready.
func (s *stack) startServer(ctx context.Context) {
	program := filepath.Join(s.bin, "temporal")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("temporal"); err != nil {
			fail("%w (make build builds it)", err)
		}
	}
	args := []string{"temporal-server", "--program", program, "--db", filepath.Join(s.dir, "temporal.db"), "--port", "0", "--no-ui"}
	r, w := io.Pipe()
	p, err := spawn("temporal", filepath.Join(s.bin, "starter"), args, nil, s.dir, w)
	if err != nil {
		fail("%w (make build builds it)", err)
	}
	s.server = p
	go func() { <-p.done; _ = w.Close() }() // ends the reader below
	line := make(chan string, 1)
	go func() {
		b := bufio.NewReader(r)
		l, _ := b.ReadString('\n') // an early end gives an empty line
		line <- l
		_, _ = io.Copy(io.Discard, b)
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case l := <-line:
		var ready struct {
			Temporal string `json:"temporal"`
		}
		if err := json.Unmarshal([]byte(l), &ready); err != nil || ready.Temporal == "" {
			fail("the Temporal server said %q instead of being ready\n%s", l, p.log)
		}
		s.address = ready.Temporal
		return
	case <-ctx.Done():
		fail("the Temporal server was not ready: %w\n%s", ctx.Err(), p.log)
	}
}

func (s *stack) startWorker(ctx context.Context) *process {
	p, err := spawn("worker", filepath.Join(s.bin, "worker"), []string{"--parent-pipe"}, s.env, s.work, nil)
	if err != nil {
		fail("%w (make build builds it)", err)
	}
	s.workers = append(s.workers, p)
	eventually(ctx, 30*time.Second, "the worker polls", p.log, func() bool {
		return s.client.Serving(ctx, fmt.Sprintf("%d@", p.pid()))
	})
	return p
}

func (s *stack) stopWorkers() {
	for _, w := range s.workers {
		w.stop()
	}
	s.workers = nil
}

func (s *stack) close() {
	s.stopWorkers()
	if s.temporal != nil {
		s.temporal.Close()
	}
	if s.store != nil {
		_ = s.store.Close() // nothing is written any more
	}
	if s.server != nil {
		s.server.stop()
	}
}

// send starts a turn in a session's conversation; a session is a new one of
// spool.NewID, as `starter send` makes them.
func (s *stack) send(ctx context.Context, session string) spool.Reply {
	return must(s.client.Send(ctx, memory.SendRequest{UserID: user, SessionID: session, Content: agent.Text("go"), Workdir: s.work}))
}

// finish waits for the end of a turn, which has to be a completed one. A turn
// that waits for a person does not end.
func (s *stack) finish(ctx context.Context, r spool.Reply) {
	end := must(s.client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{}))
	if end.Status != string(agent.ThreadCompleted) {
		fail("turn %s ended as %s: %s %s", r.TurnID, end.Status, end.ErrorCode, end.Error)
	}
}

func (s *stack) run(ctx context.Context, session string) spool.Reply {
	r := s.send(ctx, session)
	s.finish(ctx, r)
	return r
}

// eventually polls ok until it holds; if that takes too long, the log says why.
func eventually(ctx context.Context, limit time.Duration, what string, log fmt.Stringer, ok func() bool) {
	for until := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		check(ctx.Err())
		if time.Now().After(until) {
			fail("not within %s: %s\n%s", limit, what, log)
		}
	}
}

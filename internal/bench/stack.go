package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// user owns all that is sent here, as that of temporaltest's client.
const user = "tester"

// tb makes temporaltest work outside of a test: what fails ends the measurement.
type tb struct {
	testing.TB // nil: the rest is not called
	ctx        context.Context
	name, dir  string
	cleanups   []func()
}

func (t *tb) Helper()                           {}
func (t *tb) Name() string                      { return t.name }
func (t *tb) Context() context.Context          { return t.ctx }
func (t *tb) Failed() bool                      { return false }
func (t *tb) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *tb) TempDir() string                   { return must(os.MkdirTemp(t.dir, t.name+"-")) }
func (t *tb) Fatal(args ...any)                 { fail("%s", fmt.Sprint(args...)) }
func (t *tb) Fatalf(format string, args ...any) { fail(format, args...) }
func (t *tb) Errorf(format string, args ...any) { fail(format, args...) }
func (t *tb) FailNow()                          { fail("it failed") }

func (t *tb) close() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

type stack struct {
	*temporaltest.Stack
	t    *tb
	stub *stub
}

// newStack starts a server and opens a store, without workers. An empty store is a
// SQLite file of its own.
func newStack(ctx context.Context, name, store, bin, dir string, model *stub) *stack {
	check(temporaltest.Programs(bin))
	t := &tb{ctx: ctx, name: name, dir: dir}
	if store != "" {
		temporaltest.OnStore(t, func(testing.TB) string { return store })
	}
	s := &stack{t: t, stub: model}
	if err := attempt(func() { s.Stack = temporaltest.NewOn(t, temporaltest.StartServer(t)) }); err != nil {
		t.close()
		check(err)
	}
	s.Env = append(s.Env, "OPENAI_BASE_URL="+model.url+"/v1", "SPOOL_HEARTBEAT_TIMEOUT=2s", // as beside the server of `starter dev`
		"SPOOL_CONTEXT_WINDOW=2000000") // what is measured of large conversations is no summary
	return s
}

// startWorker starts a Spool worker and waits until it polls.
func (s *stack) startWorker(ctx context.Context) *temporaltest.Process {
	p := s.SpawnWorker()
	s.eventually(ctx, "the worker polls", p, func() bool { return s.Client.Serving(ctx, fmt.Sprintf("@%d@", p.PID())) })
	return p
}

func (s *stack) stopWorkers() {
	for _, w := range s.Workers {
		w.Stop()
	}
	s.Workers = nil
}

// send starts a turn in a session's conversation; a session is a new one of
// spool.NewID, as `starter send` makes them.
func (s *stack) send(ctx context.Context, session string) spool.Reply {
	return must(s.Client.Send(ctx, memory.SendRequest{UserID: user, SessionID: session, Content: agent.Text("go"), Workdir: s.Work}))
}

// finish waits for the end of a turn, which has to be a completed one. A turn
// that waits for a person does not end.
func (s *stack) finish(ctx context.Context, r spool.Reply) {
	end := must(s.Client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{}))
	if end.Status != string(agent.ThreadCompleted) {
		fail("turn %s ended as %s: %s %s", r.TurnID, end.Status, end.ErrorCode, end.Error)
	}
}

func (s *stack) run(ctx context.Context, session string) spool.Reply {
	r := s.send(ctx, session)
	s.finish(ctx, r)
	return r
}

func (s *stack) file(name string) string { return filepath.Join(s.Dir, name) }

// eventually polls ok until it holds; if that takes more than a minute, p's log says why.
func (s *stack) eventually(ctx context.Context, what string, p *temporaltest.Process, ok func() bool) {
	const limit = time.Minute
	for until := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		check(ctx.Err())
		if time.Now().After(until) {
			fail("not within %s: %s\n%s", limit, what, p.Log())
		}
	}
}

// Package temporaltest runs the real thing for tests: Temporal's own
// program as the server, worker processes built from this tree, a store on disk,
// and a fake model server. Nothing of Spool itself is replaced, so a test may
// kill any of it.
package temporaltest

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/verify"
)

// Stack is one installation of Spool: a store, a model, workers, and a client.
type Stack struct {
	t        testing.TB
	Dir      string // home
	Work     string // workspace of the workers
	Server   *Server
	Model    *llmtest.Server
	Store    memory.ConversationMemoryStore
	Temporal client.Client
	Client   *spool.Client
	Env      []string // for workers
	Workers  []*Process
	spec     string
}

// orchestrator is a template that asks nobody, so that tests may use every tool.
const orchestrator = `---
name: orchestrator
description: test
approval:
  shell: auto
  file_write: auto
  file_edit: auto
---
You are a test.
`

// New makes a stack on the shared server, without workers.
func New(t testing.TB) *Stack { return NewOn(t, SharedServer(t)) }

// NewOn makes a stack on a server, without workers.
func NewOn(t testing.TB, server *Server) *Stack {
	t.Helper()
	s := &Stack{t: t, Dir: t.TempDir(), Work: t.TempDir(), Server: server, Model: llmtest.Run(t)}
	require.NoError(t, os.MkdirAll(s.Agents(), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.Agents(), "orchestrator.md"), []byte(orchestrator), 0o644))
	ctx := context.Background()
	s.spec = storeOf(t, s)
	store, err := spool.OpenStore(ctx, s.StoreSpec())
	require.NoError(t, err)
	s.Store = store
	t.Cleanup(func() { _ = s.Store.Close() })
	s.Temporal, err = client.Dial(client.Options{HostPort: server.Address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(s.Temporal.Close)
	s.Client = spool.NewClient(store, s.Temporal, spool.ClientOptions{UserID: "tester"})
	s.Env = []string{
		"TEMPORAL_ADDRESS=" + server.Address, "SPOOL_STORE=" + s.StoreSpec(), "SPOOL_HOME=" + s.Dir, "SPOOL_WORKSPACE=" + s.Work,
		"OPENAI_BASE_URL=" + s.Model.URL(), "OPENAI_API_KEY=test", "SPOOL_MODEL=fake", "SPOOL_HEARTBEAT_TIMEOUT=4s", "SPOOL_USER=tester",
	}
	t.Cleanup(func() {
		for i, w := range s.Workers {
			w.stop()
			if t.Failed() {
				t.Logf("log of worker %d:\n%s", i, tail(w.Log(), 6000))
			}
		}
	})
	return s
}

// Agents is the user's own folder of agents: what a project's say needs an agreement.
func (s *Stack) Agents() string { return filepath.Join(s.Dir, "agents") }

// StoreSpec is the store as SPOOL_STORE names it.
func (s *Stack) StoreSpec() string { return s.spec }

// Reopen closes the store, lets change work on what it keeps, and opens it again.
func (s *Stack) Reopen(change func()) {
	s.t.Helper()
	require.NoError(s.t, s.Store.Close())
	change()
	store, err := spool.OpenStore(context.Background(), s.StoreSpec())
	require.NoError(s.t, err)
	s.Store = store
	s.Client = spool.NewClient(store, s.Temporal, spool.ClientOptions{UserID: "tester"})
}

// StorePath is the store's file, if it is a SQLite file.
func (s *Stack) StorePath() string { return filepath.Join(s.Dir, "spool.db") }

// StartWorker starts a worker process; env is added to the stack's.
func (s *Stack) StartWorker(env ...string) *Process {
	s.t.Helper()
	if (config.Config{Store: s.spec}).OneProcess() {
		return s.startHere(env...)
	}
	return s.SpawnWorker(env...)
}

// SpawnWorker is StartWorker in a process of its own, whatever the store is.
func (s *Stack) SpawnWorker(env ...string) *Process {
	s.t.Helper()
	return s.SpawnFrom(bins.worker, env...)
}

// SpawnFrom is SpawnWorker with a worker that BuildVariant made.
func (s *Stack) SpawnFrom(worker string, env ...string) *Process {
	s.t.Helper()
	p, err := Spawn("worker", worker, []string{"--parent-pipe"}, append(append([]string{}, s.Env...), env...), nil)
	require.NoError(s.t, err)
	s.Workers = append(s.Workers, p)
	return p
}

// Send sends a message to a session's default conversation.
func (s *Stack) Send(session, text string) spool.Reply {
	s.t.Helper()
	r, err := s.Client.Send(s.Ctx(), s.Message(session, text))
	require.NoError(s.t, err)
	return r
}

// Ask sends a message and waits for the end of its turn.
func (s *Stack) Ask(session, text string) spool.Reply {
	s.t.Helper()
	return s.Wait(s.Send(session, text))
}

// Wait waits for the end of a turn.
func (s *Stack) Wait(r spool.Reply) spool.Reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx(), Patience)
	defer cancel()
	out, err := s.Client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{Patient: true})
	if err != nil {
		v, _ := s.Client.Show(context.Background(), r.ThreadID, false)
		shown, _ := json.Marshal(v)
		history, _ := s.Client.History(context.Background(), r.ThreadID, "")
		s.t.Logf("%s: %s\nhistory: %s", r.ThreadID, tail(string(shown), 6000), tail(string(history), 6000))
	}
	require.NoError(s.t, err)
	return out
}

// Ctx ends with the test.
func (s *Stack) Ctx() context.Context { return s.t.Context() }

// VerifyAtEnd has Verify check the stack when its test has ended well.
func (s *Stack) VerifyAtEnd() {
	s.t.Cleanup(func() {
		if !s.t.Failed() {
			s.Verify()
		}
	})
}

// Verify checks every invariant, Temporal's side included.
func (s *Stack) Verify() {
	s.t.Helper()
	report, err := verify.Check(context.WithoutCancel(s.Ctx()), s.Store, verify.Options{Temporal: runs{s.Client}})
	require.NoError(s.t, err)
	require.Empty(s.t, report.Violations)
	require.Empty(s.t, s.Model.Violations(), "requests that a strict provider would refuse")
}

type runs struct{ c *spool.Client }

func (r runs) IsOpen(ctx context.Context, id string) (bool, error) { return r.c.OpenRun(ctx, id) }

// File reads a file of the workspace, "" if there is none.
func (s *Stack) File(name string) string {
	b, err := os.ReadFile(filepath.Join(s.Work, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// Session is a session id that no other stack uses: a Temporal namespace holds
// one run per workflow id, and the server is shared.
func (s *Stack) Session(name string) string { return name + "-" + s.Store.ID() }

// Thread is the id of a session's default conversation.
func (s *Stack) Thread(session string) string {
	return agent.MainThreadID(s.Session(session), agent.DefaultConversation)
}

// Message is a message to a session's default conversation.
func (s *Stack) Message(session, text string) memory.SendRequest {
	return memory.SendRequest{UserID: "tester", SessionID: s.Session(session), Content: agent.Text(text), WhenBusy: memory.Queue}
}

package filestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/filestore"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
)

func TestMain(m *testing.M) {
	processtest.StoreChild(openStore, processtest.DiskJobs)
	os.Exit(m.Run())
}

func openStore(ctx context.Context, dir string) (memory.ConversationMemoryStore, error) {
	s, err := filestore.Open(ctx, dir, filestore.Options{Delay: time.Millisecond})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// finish answers whatever waits in a thread.
func finish(ctx context.Context, s memory.Turns, thread string) error {
	for {
		claim, err := s.TakeNext(ctx, memory.TakeRequest{ThreadID: thread, RunID: "run"})
		if err != nil || claim.Turn == nil {
			return err
		}
		if err := answer(ctx, s, *claim.Turn, claim.Step); err != nil {
			return err
		}
	}
}

func answer(ctx context.Context, s memory.Turns, t memory.Turn, step int) error {
	fence := memory.Fence{Scope: fmt.Sprint(os.Getpid(), t.ID, step), Number: 1}
	st, err := s.BeginModel(ctx, memory.ModelBegin{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Fence: fence, MaxLost: 1000})
	if err != nil {
		return err
	}
	if st.Stored == nil {
		r := memory.ReplyRecord{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: st.Attempt, Reply: agent.ModelReply{Content: "answer"}}
		if _, err := s.SaveReply(ctx, r); err != nil {
			return err
		}
	}
	_, err = s.CloseTurn(ctx, memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCompleted, Step: step})
	return err
}

// delegate runs a turn with a sub-agent in a session and returns its thread.
func delegate(t *testing.T, s memory.ConversationMemoryStore, session string) string {
	t.Helper()
	ctx := t.Context()
	send(t, s, session, "m1")
	claim, err := s.TakeNext(ctx, memory.TakeRequest{ThreadID: session + "/default", RunID: "run"})
	ok(t, err)
	turn := claim.Turn
	st, err := s.BeginModel(ctx, memory.ModelBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1})
	ok(t, err)
	stored, err := s.SaveReply(ctx, memory.ReplyRecord{
		ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1, Attempt: st.Attempt, Delegations: []bool{true},
		Reply: agent.ModelReply{Calls: []agent.Call{agent.NewCall("x", agent.ToolAssignTask, `{}`)}},
	})
	ok(t, err)
	call := stored.Calls[0].ID
	d, err := s.OpenDelegation(ctx, memory.DelegationRequest{
		ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: call, Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "look", Limits: memory.DelegationLimits{MaxDepth: 1},
	})
	ok(t, err)
	ok(t, finish(ctx, s, d.ChildThread))
	_, err = s.TakeChildResult(ctx, memory.ChildResultRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: call})
	ok(t, err)
	_, err = s.SaveToolRound(ctx, memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1})
	ok(t, err)
	ok(t, answer(ctx, s, *turn, 2))
	return d.ChildThread
}

// TestFault_C5_KilledAtRandomWrites: whatever a process was told is safe is in
// the store after its kill, with the journal and, at the end, without; no file is
// torn.
func TestFault_C5_KilledAtRandomWrites(t *testing.T) {
	dir := t.TempDir()
	processtest.RunKills(t, func(ctx context.Context, dir string) (memory.ConversationMemoryStore, error) {
		return filestore.Open(ctx, dir, filestore.Options{Report: func(err error) { t.Errorf("after a kill: %v", err) }})
	}, dir, 1)
	filesAreTheStore(t, dir)
}

// TestFault_C12_DiskFull: of the journal and of the files.
func TestFault_C12_DiskFull(t *testing.T) {
	var dir string
	location := func(parent string) string {
		dir = filepath.Join(parent, "store")
		return dir
	}
	processtest.RunDiskFull(t, func(ctx context.Context, dir string) (memory.ConversationMemoryStore, error) {
		filesAreTheStore(t, dir)
		return openStore(ctx, dir)
	}, location)
}

// filesAreTheStore checks that the files alone hold what was said, in a store that
// keeps every rule.
func filesAreTheStore(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir, filestore.Options{Report: func(err error) { t.Error(err) }})
	want := talk(t, s)
	ok(t, s.Close())
	copied := filepath.Join(t.TempDir(), "store")
	ok(t, os.CopyFS(copied, os.DirFS(dir)))
	ok(t, os.RemoveAll(filepath.Join(copied, ".spool")))
	s = open(t, copied, filestore.Options{Report: func(err error) {
		if !strings.Contains(err.Error(), "was made anew from its file") {
			t.Error(err)
		}
	}})
	got := talk(t, s)
	for thread, text := range want {
		if !strings.HasPrefix(got[thread], text) {
			t.Errorf("from the files alone %s is %s\nwant %s", thread, got[thread], text)
		}
	}
	memorytest.Sound(t, s)
	ok(t, s.Close())
}

// talk is what was said in each thread.
func talk(t *testing.T, s memory.Reader) map[string]string {
	t.Helper()
	threads, err := s.Threads(t.Context(), memory.ThreadFilter{All: true})
	ok(t, err)
	out := map[string]string{}
	for _, th := range threads {
		messages, err := s.Messages(t.Context(), th.ID, 0, 0)
		ok(t, err)
		for _, m := range messages {
			out[th.ID] += fmt.Sprintf("%d %s %s %s\n", m.Seq, m.ID, m.Role, m.Content)
		}
	}
	return out
}

// TestFault_C12_ReadOnly: a folder that may not be written, new or in use.
func TestFault_C12_ReadOnly(t *testing.T) {
	dir := t.TempDir()
	processtest.OpenToAll(t, dir)
	closed := filepath.Join(dir, "closed")
	s := open(t, closed, filestore.Options{})
	send(t, s, "s", "m")
	ok(t, s.Close())
	before := names(t, closed)
	for _, d := range []string{closed, filepath.Join(closed, ".spool")} {
		ok(t, os.Chmod(d, 0o555))
		t.Cleanup(func() { _ = os.Chmod(d, 0o700) })
	}
	processtest.CheckReadOnly(t, closed, closed, "writable")
	processtest.CheckReadOnly(t, filepath.Join(closed, "new"), closed, "writable")
	if after := names(t, closed); !slices.Equal(after, before) {
		t.Errorf("%v, before %v", after, before)
	}
}

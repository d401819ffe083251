package filestore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/filestore"
)

// childEnv makes the test binary act as the store's process, until it is killed.
const childEnv = "SPOOL_FILESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := child(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child sends messages and answers them, and says which it has been told are safe.
func child(ctx context.Context, dir string) error {
	s, err := filestore.Open(ctx, dir, filestore.Options{Delay: time.Millisecond})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		id := fmt.Sprintf("m-%d-%d", os.Getpid(), i)
		session := "s" + strconv.Itoa(i%3)
		if _, err := s.Send(ctx, request(session, id)); err != nil {
			return err
		}
		fmt.Println(session, id)
		if err := finish(ctx, s, session+"/default"); err != nil {
			return err
		}
	}
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
		ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: call, Config: agent.AgentConfig{Name: "general"}, Task: "look", Limits: memory.DelegationLimits{MaxDepth: 1},
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
// the store after its kill, with and without the journal's help; every file is
// whole.
func TestFault_C5_KilledAtRandomWrites(t *testing.T) {
	dir := t.TempDir()
	kills := 8
	if os.Getenv("SPOOL_LONG") == "1" {
		kills = 100
	}
	acknowledged := map[string]string{}
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		ok(t, err)
		ok(t, cmd.Start())
		time.AfterFunc(time.Duration(300+rand.IntN(500))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if session, id, found := strings.Cut(lines.Text(), " "); found {
				acknowledged[id] = session
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the process ended by itself")
		}
		var r said
		s := open(t, dir, filestore.Options{Report: r.report})
		if r.String() != "" {
			t.Errorf("after a kill: %s", r.String())
		}
		sound(t, s)
		for id, session := range acknowledged {
			entries, err := s.Inbox(t.Context(), session+"/default")
			ok(t, err)
			found := 0
			for _, e := range entries {
				if e.ID == id {
					found++
				}
			}
			if found != 1 {
				t.Fatalf("message %s of %s is there %d times", id, session, found)
			}
		}
		ok(t, s.Close())
	}
	if len(acknowledged) < kills {
		t.Errorf("only %d messages were sent", len(acknowledged))
	}
	s := open(t, dir, filestore.Options{})
	want := state(t, s)
	ok(t, s.Close())
	ok(t, os.RemoveAll(dir+"/.spool"))
	if got := state(t, open(t, dir, filestore.Options{})); got != want {
		t.Error("the files alone give another store")
	}
}

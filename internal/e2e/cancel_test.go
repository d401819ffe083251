package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// Limits of a cancel, from its request to the close, by the store's clock.
const (
	cancelOfTurn = 500 * time.Millisecond
	cancelOfTree = 2 * time.Second
)

// here is what a limit is on this machine as it is now, where a turn that does
// nothing takes so long: where they are made for, it takes a tenth of a second.
func here(limit, turn time.Duration) time.Duration {
	return time.Duration(float64(limit) * max(1, turn.Seconds()/0.1))
}

// beats is a tool that shows for as long as it runs that it does; what goes
// before may make it stubborn.
func beats(before, file string) string {
	return script.Call("shell", map[string]any{"command": before + "while :; do echo beat >> " + file + "; sleep 0.1; done"})
}

// gatedWrite is a call that asks, while shell does not.
func gatedWrite(file string) string {
	return script.Call("file_write", map[string]any{"path": file, "content": "written"})
}

// cancelStates are what a turn may be doing when it is cancelled. Each begins
// its turn and returns when it is there; file is a name of its own.
var cancelStates = []struct {
	name  string
	begin func(t *testing.T, s *tt.Stack, session, file string) spool.Reply
	roles string // of the messages that the turn leaves
}{
	{"model streaming", func(t *testing.T, s *tt.Stack, session, _ string) spool.Reply {
		r := s.Send(session, "script: slow 100ms say "+strings.Repeat("word ", 300))
		streaming(t, s, r.ThreadID)
		return r
	}, "user assistant"},
	{"model silent", func(t *testing.T, s *tt.Stack, session, _ string) spool.Reply {
		r := s.Send(session, script.Script(add(1, 2), "first 60s say never of "+session))
		tt.Eventually(t, "the model is asked", func() bool { return s.Model.Asked("never of "+session, 1) == 1 })
		return r
	}, "user assistant tool"},
	{"model failing, a retry is due", func(t *testing.T, s *tt.Stack, session, _ string) spool.Reply {
		r := s.Send(session, "script: fail 503 x1000 after 2s say never of "+session)
		tt.Eventually(t, "the model is asked", func() bool { return s.Model.Asked("never of "+session, 0) > 0 })
		time.Sleep(300 * time.Millisecond) // the answer was an error, and the next attempt is seconds away
		return r
	}, "user"},
	{"tools running, one finished", func(t *testing.T, s *tt.Stack, session, file string) spool.Reply {
		r := s.Send(session, script.Script(script.Calls(count(file+"-done"), beats("", file), beats("", file+"-other")), "say never"))
		for _, f := range []string{file, file + "-other", file + "-done"} {
			started(t, s, f)
		}
		return r
	}, "user assistant tool tool tool"},
	{"tool that ignores a cancel", func(t *testing.T, s *tt.Stack, session, file string) spool.Reply {
		r := s.Send(session, script.Script(beats("trap '' TERM INT HUP; ", file), "say never"))
		started(t, s, file)
		return r
	}, "user assistant tool"},
	{"waiting for a person", func(t *testing.T, s *tt.Stack, session, file string) spool.Reply {
		return pendingApproval(t, s, s.Send(session, script.Script(script.Calls(add(1, 2), gatedWrite(file)), "say never")))
	}, "user assistant tool tool"},
	{"waiting for a person, parked", func(t *testing.T, s *tt.Stack, session, file string) spool.Reply {
		r := pendingApproval(t, s, s.Send(session, script.Script(gatedWrite(file), "say never")))
		parked(t, s, r.ThreadID)
		return r
	}, "user assistant tool"},
	{"asking, and a sub-agent asks, parked", func(t *testing.T, s *tt.Stack, session, _ string) spool.Reply {
		question := func(text string) string { return script.Call("ask_user", map[string]any{"question": text}) }
		r := s.Send(session, script.Script(script.Calls(question("a?"), script.Task("general", script.Script(question("b?"), "say never"))), "say never"))
		openQuestions(t, s, r.ThreadID, 2)
		for _, th := range tree(t, s, r.ThreadID) {
			parked(t, s, th.ID)
		}
		return r
	}, "user assistant tool tool"},
	{"children running to depth 3", func(t *testing.T, s *tt.Stack, session, file string) spool.Reply {
		task := script.Script(script.Calls(beats("trap '' TERM; ", file), beats("", file+"-2")), "say never")
		for range 3 {
			task = script.Script(script.Calls(script.Task("general", task), add(1, 2)), "say never")
		}
		r := s.Send(session, task)
		started(t, s, file)
		started(t, s, file+"-2")
		require.Len(t, tree(t, s, r.ThreadID), 4)
		return r
	}, "user assistant tool tool"},
	{"a grandchild waiting for a person, all parked", func(t *testing.T, s *tt.Stack, session, file string) spool.Reply {
		child := script.Script(script.Task("general", script.Script(gatedWrite(file), "say never")), "say never")
		r := pendingApproval(t, s, s.Send(session, script.Script(script.Task("general", child), "say never")))
		for _, th := range tree(t, s, r.ThreadID) {
			parked(t, s, th.ID)
		}
		return r
	}, "user assistant tool"},
	{"waiting for a background child", func(t *testing.T, s *tt.Stack, session, file string) spool.Reply {
		r := s.Send(session, script.Script(background("general", script.Script(count(file), "first 60s say report")),
			script.Call("task_output", map[string]any{"waitMs": 60_000}), "say never"))
		started(t, s, file)
		tt.Eventually(t, "it waits", func() bool {
			calls, err := s.Store.ToolCalls(s.Ctx(), r.ThreadID)
			return err == nil && len(calls) == 2
		})
		return r
	}, "user assistant tool assistant tool"},
}

// Rows 69, 70, 76, 103, D7: whatever a turn is doing, a cancel ends it within
// half a second and its tree within two, or later on a slow machine; its tools stop,
// queued messages are answered, and the thread is as good as before. CancelWorkflow, as Temporal's
// Web UI sends it, means the same.
func TestRow103_CancelInEveryState(t *testing.T) {
	s := stack(t)
	template(t, s, "orchestrator", "approval:\n  shell: auto\n  file_write: ask\n", "Test.")
	s.StartWorker("SPOOL_WAIT_IN_RUN=300ms")
	for i, state := range cancelStates {
		for how, ask := range map[string]func(r spool.Reply) error{
			"cancel": func(r spool.Reply) error {
				_, err := s.Client.Cancel(s.Ctx(), memory.CancelRequest{ThreadID: r.ThreadID, TurnID: r.TurnID, By: "tester"})
				return err
			},
			"CancelWorkflow": func(r spool.Reply) error { return s.Temporal.CancelWorkflow(s.Ctx(), r.ThreadID, "") },
		} {
			t.Run(state.name+"/"+how, func(t *testing.T) {
				var turn, all, idle time.Duration
				// The limits are wall-clock time: what a busy machine delays gets two more tries.
				for try := range 3 {
					name := fmt.Sprintf("c%d-%s-%d", i, how, try)
					turn, all, idle = cancelled(t, s, state.begin(t, s, name, name), state.roles, ask)
					if turn <= here(cancelOfTurn, idle) && all <= here(cancelOfTree, idle) {
						t.Logf("turn %s, tree %s, a turn that does nothing %s", turn.Round(time.Millisecond), all.Round(time.Millisecond), idle.Round(time.Millisecond))
						return
					}
				}
				t.Errorf("three times the turn took longer than %s or its tree than %s, at last %s and %s", here(cancelOfTurn, idle), here(cancelOfTree, idle), turn, all)
			})
		}
	}
}

// cancelled queues a message, cancels the turn, checks what is left, and returns
// how long it took until the turn, and its whole tree, were at rest, and what a turn
// that does nothing takes.
func cancelled(t *testing.T, s *tt.Stack, r spool.Reply, want string, ask func(spool.Reply) error) (turn, all, idle time.Duration) {
	t.Helper()
	session := strings.TrimSuffix(r.SessionID, "-"+s.Store.ID())
	queued := s.Send(session, "script: say next")
	asked := time.Now()
	require.NoError(t, ask(r))
	require.Equal(t, "cancelled", s.Wait(r).Status)
	require.Equal(t, "next", s.Wait(queued).Response, "a queued message stays and is answered")

	closed, err := s.Store.Turn(s.Ctx(), r.TurnID)
	require.NoError(t, err)
	if closed.CancelRequested != nil {
		asked = *closed.CancelRequested
	}
	turn = closed.ClosedAt.Sub(asked)
	for _, th := range tree(t, s, r.ThreadID) {
		for _, other := range turns(t, s, th.ID) {
			if other.Background || other.ID == queued.TurnID || other.EntryKind == memory.EntryChild {
				continue
			}
			require.Equal(t, memory.TurnClosed, other.State, th.ID)
			require.Equal(t, agent.ThreadCancelled, other.Outcome, th.ID)
			all = max(all, other.ClosedAt.Sub(asked))
		}
	}
	silent(t, s, session)
	var own []agent.Message
	for _, m := range messages(t, s, r.ThreadID) {
		if m.TurnID == r.TurnID {
			own = append(own, m)
		}
	}
	require.Equal(t, want, roles(own))
	begun := time.Now()
	require.Equal(t, "again", s.Ask(session, "script: say again").Response)
	return turn, all, time.Since(begun)
}

// silent waits until the tools of a session have stopped: their files grow no more.
func silent(t *testing.T, s *tt.Stack, session string) {
	t.Helper()
	said := func() string { return s.File(session) + s.File(session+"-other") + s.File(session+"-2") }
	if !strings.Contains(said(), "beat") {
		return
	}
	tt.Eventually(t, "the tools stop", func() bool {
		before := said()
		time.Sleep(350 * time.Millisecond)
		return said() == before
	})
}

// Row 103: cancel --all starts the model again nowhere, though a foreground child
// is at work when a background one below it ends.
func TestRow103_AllStartsNothingAgain(t *testing.T) {
	s := begin(t)
	forAWhile := script.Script(slow("w", 60), "say never")
	middle := script.Script(script.Calls(background("general", forAWhile), background("general", forAWhile), script.Task("general", forAWhile)), "say never")
	r := s.Send("s1", script.Script(script.Calls(background("general", forAWhile), script.Task("general", middle)), "say never"))
	tt.Eventually(t, "all are at work", func() bool { return lines(s.File("w")) == 4 })
	_, err := s.Client.Cancel(s.Ctx(), memory.CancelRequest{ThreadID: r.ThreadID, By: "tester", All: true})
	require.NoError(t, err)
	quiet(t, s, r.ThreadID)
	calls := len(s.Model.Records())
	require.Never(t, func() bool { return len(s.Model.Records()) != calls }, time.Second, 100*time.Millisecond)
	for _, th := range tree(t, s, r.ThreadID) {
		require.Len(t, turns(t, s, th.ID), 1, th.ID)
		require.Equal(t, agent.ThreadCancelled, th.Status, th.ID)
	}
	require.Equal(t, s.Model.Charged().TotalTokens, thread(t, s, r.ThreadID).TotalTokens, "nothing is left for the next message to pay")
	use := s.Ask("s1", "script: say hi").Usage
	require.EqualValues(t, 1, use.Requests, "the next message pays for itself")
}

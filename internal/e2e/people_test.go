package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
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

func cancel(t *testing.T, s *tt.Stack, r spool.Reply) {
	t.Helper()
	_, err := s.Client.Cancel(s.Ctx(), memory.CancelRequest{ThreadID: r.ThreadID, TurnID: r.TurnID, By: "tester"})
	require.NoError(t, err)
}

// streaming waits until text of the thread's current model call can be read.
func streaming(t *testing.T, s *tt.Stack, thread string) {
	t.Helper()
	tt.Eventually(t, "text streams", func() bool {
		st, err := s.Store.Stream(s.Ctx(), thread)
		return err == nil && st != nil && st.Text != ""
	})
}

// started waits until a tool has written to its file.
func started(t *testing.T, s *tt.Stack, file string) {
	t.Helper()
	tt.Eventually(t, "the tool that writes "+file+" runs", func() bool { return s.File(file) != "" })
}

// Row 103: a cancel reaches foreground descendants at depth 3 within 2 s of its
// row in the store, by the store's clock, or later on a slow machine, and leaves
// those in the background.
// With all it stops them too.
func TestRow103_CancelReachesDescendants(t *testing.T) {
	s := begin(t)
	deepest := script.Script(slow("deep", 60), "say never")
	deeper := script.Script(background("general", script.Script(slow("apart", 60), "say never")), script.Task("general", deepest), "say never")
	r := s.Send("s1", script.Script(script.Task("general", script.Script(script.Task("general", deeper), "say never")), "say never"))
	started(t, s, "deep")
	started(t, s, "apart")
	cancel(t, s, r)
	require.Equal(t, "cancelled", s.Wait(r).Status)
	requested := turns(t, s, r.ThreadID)[0].CancelRequested
	require.NotNil(t, requested)
	begun := time.Now()
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response)
	limit := here(cancelOfTree, time.Since(begun))
	depths := map[int]int{}
	var apart agent.Thread
	for _, th := range tree(t, s, r.ThreadID) {
		if ts := turns(t, s, th.ID); ts[0].Background {
			apart = th
			continue
		}
		depths[th.Depth]++
		turn := turns(t, s, th.ID)[0]
		require.Equal(t, agent.ThreadCancelled, turn.Outcome, th.ID)
		require.LessOrEqual(t, turn.ClosedAt.Sub(*requested), limit, th.ID)
		noRun(t, s, th.ID)
	}
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1, 3: 1}, depths)
	require.Equal(t, "start\n", s.File("deep"))
	require.Equal(t, agent.ThreadRunning, apart.Status, "it is in the background")

	out, err := s.Client.Cancel(s.Ctx(), memory.CancelRequest{ThreadID: r.ThreadID, By: "tester", All: true})
	require.NoError(t, err)
	require.Equal(t, 1, out.Stopped)
	noRun(t, s, apart.ID)
	turn := turns(t, s, apart.ID)[0]
	require.Equal(t, agent.ThreadCancelled, turn.Outcome)
	require.LessOrEqual(t, turn.ClosedAt.Sub(*turn.CancelRequested), limit)
	require.Len(t, turns(t, s, r.ThreadID), 2, "its end started no turn")
	require.Equal(t, "start\n", s.File("apart"))
}

// noRun waits until a thread has no open run.
func noRun(t *testing.T, s *tt.Stack, thread string) {
	t.Helper()
	tt.Eventually(t, "the run of "+thread+" ends", func() bool {
		open, err := s.Client.OpenRun(s.Ctx(), thread)
		return err == nil && !open
	})
}

// A cancel whose hint is lost, and one that is made while no worker is up, take
// effect all the same.
func TestCancelWithoutHint(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	r := s.Send("s1", script.Script(slow("a", 60), "say never"))
	started(t, s, "a")
	w.Kill()
	_, err := s.Store.RequestCancel(s.Ctx(), memory.CancelRequest{ThreadID: r.ThreadID, TurnID: r.TurnID, By: "tester"})
	require.NoError(t, err)
	s.StartWorker()
	require.Equal(t, "cancelled", s.Wait(r).Status)
}

// Row 60, C2: the model fails for good after the user message was saved; retry
// makes no second user message and its answer supersedes.
func TestRow60_RetryDoesNotDuplicate(t *testing.T) {
	s := begin(t)
	rounds := 0
	s.Model.Raw(func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if rounds++; rounds == 1 {
			_, _ = io.WriteString(w, `{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"shell","arguments":"{\"command\":\"echo run >> n\"}"}}]}}]}`)
			return
		}
		http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusBadRequest)
	})
	r := s.Ask("s1", script.Script(count("n"), "say fine"))
	require.Equal(t, "failed", r.Status)
	require.NotEmpty(t, r.Error)
	require.Equal(t, "user assistant tool", roles(messages(t, s, r.ThreadID)))

	again := retry(t, s, r, "retry-1")
	require.Equal(t, "failed", s.Wait(again).Status)
	s.Model.Raw(nil)
	again = retry(t, s, r, "retry-2")
	repeated := retry(t, s, r, "retry-2")
	require.Equal(t, again.TurnID, repeated.TurnID, "a retry is idempotent by its request id")
	require.Equal(t, "fine", s.Wait(again).Response)

	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant tool assistant", roles(m), "one user message, finished results stay")
	require.Equal(t, 1, lines(s.File("n")), "the tool did not run again")
}

// Messages sent while a turn runs are answered in order, each once.
func TestRow94_QueuedMessagesInOrder(t *testing.T) {
	s := begin(t)
	var replies []spool.Reply
	for _, text := range []string{"script: first 500ms say one", "script: say two", "script: say three"} {
		replies = append(replies, s.Send("s1", text))
	}
	for i, want := range []string{"one", "two", "three"} {
		require.Equal(t, want, s.Wait(replies[i]).Response)
	}
	require.Equal(t, "user assistant user assistant user assistant", roles(messages(t, s, replies[0].ThreadID)))
	require.GreaterOrEqual(t, historyOf(t, s, replies[0].ThreadID).runs, 2, "each turn that follows another has its own run")
}

func pendingApproval(t *testing.T, s *tt.Stack, r spool.Reply) spool.Reply {
	t.Helper()
	ctx, stop := context.WithTimeout(s.Ctx(), tt.Patience)
	defer stop()
	out, err := s.Client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{})
	for err == nil && out.Status == spool.StatusStored { // the worker is slow to start
		out, err = s.Client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{})
	}
	require.NoError(t, err)
	require.Equal(t, "waiting_for_approval", out.Status, out.Error)
	require.Len(t, out.Pending, 1)
	return out
}

// ask makes the stack's orchestrator ask before it uses the shell.
func ask(t *testing.T, s *tt.Stack) {
	t.Helper()
	template(t, s, "orchestrator", "", "You ask first.")
}

// Rows 64, 74: a denied call is saved with its denial and ends the turn.
func TestRow64_Denial(t *testing.T) {
	s := stack(t)
	ask(t, s)
	s.StartWorker()
	r := s.Send("s1", script.Script(script.Calls(add(6, 7), count("gated")), "say never"))
	r = pendingApproval(t, s, r)
	decide(t, s, r.Pending[0].ApprovalID, memory.Deny)
	end := s.Wait(r)
	require.Equal(t, "completed", end.Status, end.Error)
	require.Contains(t, end.Response, "denied")
	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant tool tool assistant", roles(m))
	require.Contains(t, m[2].Content.String(), "13")
	require.Equal(t, agent.TextDenied, m[3].Content.String())
	require.Equal(t, agent.ErrDenied, m[3].ErrorReason)
	require.Empty(t, s.File("gated"))
	require.Equal(t, 0, s.Model.Asked("never", 1))
}

// Row 76, C7: an approval survives the death of every worker; nothing is asked again,
// and neither the finished siblings nor the model run again.
func TestRow76_ApprovalSurvivesRestart(t *testing.T) {
	s := stack(t)
	ask(t, s)
	w := s.StartWorker()
	r := pendingApproval(t, s, s.Send("s1", script.Script(script.Calls(add(6, 7), count("gated"), add(1, 2)), "say granted")))
	w.Kill()
	w = s.StartWorker()
	require.Equal(t, r.Pending, pendingApproval(t, s, r).Pending, "the same question")
	w.Kill()
	decide(t, s, r.Pending[0].ToolCalls[0].ID, memory.Approve)
	_, err := s.Client.Decide(s.Ctx(), memory.Decision{By: "other", Target: r.Pending[0].ApprovalID, Verdict: memory.Deny})
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "the first decision wins: %v", err)
	w = s.StartWorker()
	require.Equal(t, "granted", s.Wait(r).Response)
	require.Equal(t, 1, lines(s.File("gated")))
	require.Equal(t, 1, s.Model.Asked("granted", 0), "the model was asked once")

	// A person's own arguments: what ran, what is stored and what the model is told.
	r = pendingApproval(t, s, s.Send("s1", script.Script(script.Calls(count("not-this"), count("as-it-was")), "echo it said")))
	w.Kill()
	call := r.Pending[0].ToolCalls[0].ID
	own := map[string]json.RawMessage{call: json.RawMessage(`{"command":"echo mine >> but-this"}`)}
	changed := memory.Decision{By: "tester", Target: r.Pending[0].ApprovalID, Verdict: memory.Approve, Arguments: map[string]json.RawMessage{call: json.RawMessage(`{"command":7}`)}}
	_, err = s.Client.Decide(s.Ctx(), changed)
	require.ErrorContains(t, err, "the arguments for shell are not valid")
	changed.Arguments = own
	for i := range 2 {
		done, err := s.Client.Decide(s.Ctx(), changed)
		require.NoError(t, err)
		require.Equal(t, i == 1, done.Repeated)
		require.Equal(t, own, done.Approval.Arguments)
	}
	changed.Arguments = nil
	_, err = s.Client.Decide(s.Ctx(), changed)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "not the same decision: %v", err)
	s.StartWorker()
	require.Contains(t, s.Wait(r).Response, agent.TextEdited)
	require.Equal(t, "mine\n", s.File("but-this"))
	require.Empty(t, s.File("not-this"))
	require.Equal(t, 1, lines(s.File("as-it-was")))
	v, err := s.Client.Show(s.Ctx(), r.ThreadID, true)
	require.NoError(t, err)
	ran := v.ToolCalls[slices.IndexFunc(v.ToolCalls, func(c agent.ToolCall) bool { return c.ID == call })]
	require.Equal(t, agent.GateEdited, ran.Gate)
	require.JSONEq(t, string(own[call]), string(ran.Args))
	for _, m := range v.Messages {
		for _, c := range m.ToolCalls {
			require.NotContains(t, c.Function.Arguments, "not-this", "the model sees what ran")
		}
	}
}

// Row 60: whatever way a turn ended, three retries as a person types them leave
// one user message and one answer that counts, go on from the last save point,
// and run no finished tool again.
func TestRow60_RetryOfEveryEnd(t *testing.T) {
	s := stack(t)
	template(t, s, "orchestrator", "approval:\n  shell: auto\n  file_write: ask\n", "Test.")
	s.StartWorker()
	for name, c := range map[string]struct {
		status string
		end    func(t *testing.T, session string) spool.Reply
	}{
		"completed": {"completed", func(_ *testing.T, session string) spool.Reply {
			return s.Ask(session, script.Script(count(session), "say fine"))
		}},
		"failed": {"failed", func(_ *testing.T, session string) spool.Reply {
			s.Model.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusBadRequest)
			})
			defer s.Model.Raw(nil)
			return s.Ask(session, script.Script(count(session), "say fine"))
		}},
		"broken off": {"cancelled", func(t *testing.T, session string) spool.Reply {
			r := s.Send(session, script.Script(count(session), "slow 20ms say "+strings.Repeat("fine ", 100)))
			streaming(t, s, r.ThreadID)
			cancel(t, s, r)
			return s.Wait(r)
		}},
		"cancelled in a tool": {"cancelled", func(t *testing.T, session string) spool.Reply {
			r := s.Send(session, script.Script(script.Calls(count(session), slow(session+"-slow", 30)), "say fine"))
			started(t, s, session+"-slow")
			started(t, s, session)
			cancel(t, s, r)
			return s.Wait(r)
		}},
		"denied": {"completed", func(t *testing.T, session string) spool.Reply {
			r := pendingApproval(t, s, s.Send(session, script.Script(count(session), gatedWrite(session+"-w"), "say fine")))
			return decided(t, s, r, memory.Decision{Target: r.Pending[0].ApprovalID, Verdict: memory.Deny})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			session := "retry-" + strings.ReplaceAll(name, " ", "-")
			r := c.end(t, session)
			require.Equal(t, c.status, r.Status, r.Error)
			var last sentDoc
			for range 3 {
				last = typed[sentDoc](t, s, 0, "retry", r.ThreadID)
				require.Equal(t, "completed", last.Status)
				require.Contains(t, last.Response, "fine")
			}
			users, counting := 0, 0
			for _, m := range messages(t, s, r.ThreadID) {
				switch {
				case m.Role == agent.RoleUser:
					users++
				case m.Role == agent.RoleAssistant && len(m.ToolCalls) == 0 && m.SupersededBy == "":
					counting++
					require.Equal(t, last.TurnID, m.TurnID)
					require.False(t, m.Partial)
				}
			}
			require.Equal(t, []int{1, 1}, []int{users, counting}, "user messages, answers that count")
			require.Equal(t, 1, lines(s.File(session)), "a finished tool did not run again")
			for i, turn := range turns(t, s, r.ThreadID) {
				require.Equal(t, i > 0, turn.RetryOf != "", "each retry is a turn that names the one before")
			}
		})
	}
}

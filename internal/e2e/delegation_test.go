package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// background is the step that delegates a task in the background.
func background(agentType, task string) string {
	return script.Call("assign_task", map[string]any{"agent": agentType, "task": task, "background": true})
}

// reports counts, by child, the messages in which a thread was told of an end.
func reports(t *testing.T, s *tt.Stack, thread string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, m := range messages(t, s, thread) {
		if m.Role == agent.RoleUser && strings.HasPrefix(m.Source, "agent:agent:") {
			out[strings.TrimPrefix(m.Source, "agent:")]++
		}
	}
	return out
}

// quiet waits until no thread of a tree has an open turn or an entry that would
// open one.
func quiet(t *testing.T, s *tt.Stack, root string) {
	t.Helper()
	rests := func() bool {
		return !slices.ContainsFunc(tree(t, s, root), func(th agent.Thread) bool { return !th.Status.Final() })
	}
	tt.Eventually(t, "the tree of "+root+" is at rest", func() bool {
		if !rests() { // what has ended by now stands in its parent's inbox
			return false
		}
		for _, th := range tree(t, s, root) {
			entries, err := s.Store.Inbox(s.Ctx(), th.ID)
			if err != nil || slices.ContainsFunc(entries, func(e memory.InboxEntry) bool { return e.State == memory.EntryWaiting && !e.Quiet }) {
				return false
			}
		}
		return rests() // and so does who has read it
	})
}

// onceEach checks that n children were reported to a thread, each once.
func onceEach(t *testing.T, s *tt.Stack, thread string, n int) {
	t.Helper()
	got := reports(t, s, thread)
	require.Len(t, got, n)
	for child, times := range got {
		require.Equal(t, 1, times, child)
	}
}

// childrenEnd waits until a thread has n sub-agents, all of which have ended.
func childrenEnd(t *testing.T, s *tt.Stack, threadID string, n int) {
	t.Helper()
	tt.Eventually(t, "the sub-agents end", func() bool {
		children, err := s.Store.Children(s.Ctx(), threadID)
		return err == nil && len(children) == n && !slices.ContainsFunc(children, func(th agent.Thread) bool { return !th.Status.Final() })
	})
}

// Rows 10, 11: the id at once; the parent answers before the child ends; the
// idle parent then starts a turn that reports.
func TestRow10_BackgroundReturnsAtOnce(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", script.Script(background("general", script.Script(until("child"), "say late")), "echo started:"))
	require.Equal(t, "completed", r.Status, r.Error)
	all := tree(t, s, r.ThreadID)
	require.Len(t, all, 2)
	require.Contains(t, r.Response, all[1].AgentID)
	require.False(t, all[1].Status.Final(), "the child is still at work")
	letGo(t, s, "child")
	quiet(t, s, r.ThreadID)
	onceEach(t, s, r.ThreadID, 1)
	ts := turns(t, s, r.ThreadID)
	require.Len(t, ts, 2)
	require.Equal(t, memory.EntryChild, ts[1].EntryKind)
	require.Equal(t, agent.ThreadCompleted, ts[1].Outcome)
	require.Contains(t, messages(t, s, r.ThreadID)[4].Content.String(), "late")
}

// Row 11: exactly one report to a parent that continues as new all the time.
func TestRow11_ReportAcrossContinueAsNew(t *testing.T) {
	s := begin(t, "SPOOL_MAX_EVENTS=10")
	r := s.Ask("s1", script.Script(background("general", script.Script(add(1, 1), add(2, 2), "say quick")),
		"first 300ms "+add(1, 2), "first 300ms "+add(1, 3), "first 300ms "+add(1, 4), "first 300ms "+add(1, 5), "say done"))
	require.Equal(t, "done", r.Response, r.Error)
	quiet(t, s, r.ThreadID)
	onceEach(t, s, r.ThreadID, 1)
	require.GreaterOrEqual(t, historyOf(t, s, r.ThreadID).runs, 2)
}

// Row 11: the end of a resumed child's turn is reported like the first.
func TestRow11_ReportOfAResumedChild(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", script.Script(background("general", "script: say one"), "say started"))
	quiet(t, s, r.ThreadID)
	child := tree(t, s, r.ThreadID)[1]
	s.Ask("s1", script.Script(script.Call("assign_task", map[string]any{
		"agent": "general", "task": "script: say two", "resume": child.AgentID, "background": true}), "say resumed"))
	quiet(t, s, r.ThreadID)
	require.Equal(t, map[string]int{child.ID: 2}, reports(t, s, r.ThreadID))
	require.Len(t, turns(t, s, child.ID), 2)
}

// Row 12, E3: five children of one type end within one second while the parent
// is busy: five reports, each once, before its next model call.
func TestFault_E3_FiveEndTogether(t *testing.T) {
	s := begin(t)
	var five []string
	for i := range 5 {
		five = append(five, background("general", fmt.Sprintf("script: first 500ms say answer %d", i)))
	}
	r := s.Send("s1", script.Script(script.Calls(five...), until("a"), "say done"))
	childrenEnd(t, s, r.ThreadID, 5)
	letGo(t, s, "a")
	r = s.Wait(r)
	require.Equal(t, "done", r.Response, r.Error)
	quiet(t, s, r.ThreadID)
	onceEach(t, s, r.ThreadID, 5)
	require.Len(t, turns(t, s, r.ThreadID), 1, "all were told in the turn that was open")
	texts := ""
	for _, m := range messages(t, s, r.ThreadID)[1:] {
		texts += m.Content.String()
	}
	for i := range 5 {
		require.Equal(t, 1, strings.Count(texts, fmt.Sprintf("answer %d", i)))
	}
}

// E5: a background grandchild outlives its parent: the nearest ancestor at work
// is told, else the root.
func TestFault_E5_GrandchildOutlivesItsParent(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]string{"root idle": "say root done", "root busy": slow("busy", 4)} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			child := script.Script(background("researcher", "script: first 2s say deep"), "say child done")
			r := s.Ask("s1", script.Script(script.Task("general", child), after, "say end"))
			require.Equal(t, "completed", r.Status, r.Error)
			quiet(t, s, r.ThreadID)
			all := tree(t, s, r.ThreadID)
			require.Len(t, all, 3)
			require.Equal(t, map[string]int{all[2].ID: 1}, reports(t, s, r.ThreadID))
			require.Empty(t, reports(t, s, all[1].ID), "its own parent had ended")
			list := s.Ask("s1", script.Script(taskOutput("", 0), "echo list:")).Response
			require.Contains(t, list, "1 sub-agent of this thread")
			require.Contains(t, list, "- "+all[2].AgentID+", researcher, success: script: first 2s say deep (started by "+all[1].AgentID+")")
			read := s.Ask("s1", script.Script(taskOutput(all[2].AgentID, 0), "echo read:")).Response
			require.Contains(t, read, "started by: "+all[1].AgentID)
		})
	}
}

// E4: a child terminated in the Web UI is reported as such, and its parent goes on.
func TestFault_E4_TerminatedChildIsReported(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(agent, task string) string{"foreground": script.Task, "background": background} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			r := s.Send("s1", script.Script(step("general", script.Script(slow("child", 60), "say never")), "echo told:"))
			started(t, s, "child")
			child := tree(t, s, r.ThreadID)[1]
			require.NoError(t, s.Temporal.TerminateWorkflow(s.Ctx(), child.ID, "", "by a person"))
			require.Equal(t, "completed", s.Wait(r).Status)
			quiet(t, s, r.ThreadID)
			require.Contains(t, said(t, s, r.ThreadID), "terminated")
			require.Equal(t, agent.ReasonTerminated, thread(t, s, child.ID).Reason)
		})
	}
}

// D10: a background delegation as the last step of a turn, the worker killed
// right before and right after it is stored: the child starts all the same.
func TestFault_D10_BackgroundAsTheLastStep(t *testing.T) {
	s := stack(t)
	all := dieAt(t, s, "before-open-delegation", "after-open-delegation", "after-round", "after-close")
	r := s.Send("s1", script.Script(background("general", "script: first 300ms say late"), "say started"))
	all()
	require.Equal(t, "started", s.Wait(r).Response)
	quiet(t, s, r.ThreadID)
	require.Len(t, tree(t, s, r.ThreadID), 2)
	onceEach(t, s, r.ThreadID, 1)
}

// Row 103: a cancel leaves background children running, and says how many.
func TestRow103_CancelAndBackgroundChildren(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", script.Script(background("general", script.Script(until("child"), "say survived")), slow("own", 60), "say never"))
	started(t, s, "child")
	started(t, s, "own")
	out, err := s.Client.Cancel(s.Ctx(), memory.CancelRequest{ThreadID: r.ThreadID, TurnID: r.TurnID, By: "tester"})
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 1}, [2]int{out.Stopped, out.Running})
	require.Equal(t, "cancelled", s.Wait(r).Status)
	letGo(t, s, "child")
	quiet(t, s, r.ThreadID)
	require.Equal(t, agent.ThreadCompleted, tree(t, s, r.ThreadID)[1].Status)
	onceEach(t, s, r.ThreadID, 1)
}

// Row 100: each background task whose end finds the orchestrator idle gets one response
// of it, however the task ended.
func TestRow100_OneResponsePerTask(t *testing.T) {
	s := begin(t, "SPOOL_RETRY_FOR=1s")
	r := s.Ask("s1", script.Script(script.Calls(
		background("general", script.Script(until("one"), "say one")),
		background("general", script.Script(until("two"), "fail 500 x99 say never"))), "say started"))
	require.Equal(t, "started", r.Response, r.Error)
	letGo(t, s, "one")
	letGo(t, s, "two")
	childrenEnd(t, s, r.ThreadID, 2)
	quiet(t, s, r.ThreadID)
	onceEach(t, s, r.ThreadID, 2)
	answers := 0
	for _, turn := range turns(t, s, r.ThreadID)[1:] {
		require.Equal(t, agent.ThreadCompleted, turn.Outcome)
		answers++
	}
	told := 0
	for _, m := range messages(t, s, r.ThreadID)[1:] {
		if m.Role == agent.RoleUser {
			told++
		}
	}
	require.Equal(t, 2, told)
	require.LessOrEqual(t, answers, 2, "no task is answered twice")
	require.GreaterOrEqual(t, answers, 1)
	states := map[agent.TaskStatus]int{}
	for _, task := range tasksOf(t, s, r.ThreadID) {
		states[task.Status]++
	}
	require.Equal(t, map[agent.TaskStatus]int{agent.TaskSuccess: 1, agent.TaskFailed: 1}, states)
}

// Row 100: the model is away for longer than calls are repeated, below and above. What
// was delegated ends as failed, nothing stays at work, and a retry goes on.
func TestRow100_NoZombieAfterAnOutage(t *testing.T) {
	s := begin(t, "SPOOL_RETRY_FOR=1s")
	child := script.Script(script.Task("researcher", script.Script("fail 500 x99 say never")), "fail 503 x99 say never")
	r := s.Ask("s1", script.Script(script.Calls(script.Task("general", child), background("general", "script: fail 500 x99 say never")), "fail 500 x3 say over"))
	quiet(t, s, r.ThreadID)
	all := tree(t, s, r.ThreadID)
	require.Len(t, all, 4)
	for _, th := range all {
		for _, task := range tasksOf(t, s, th.ID) {
			require.Equal(t, agent.TaskFailed, task.Status, task.Name)
			require.NotEmpty(t, task.Error)
		}
		if th.ID != r.ThreadID {
			require.Equal(t, agent.ThreadFailed, th.Status)
		}
		tt.Eventually(t, "the run of "+th.ID+" has ended", func() bool {
			open, err := s.Client.OpenRun(s.Ctx(), th.ID)
			return err == nil && !open
		})
	}
	if r.Status == "failed" {
		r = s.Wait(retry(t, s, r, "again"))
	}
	require.Equal(t, "over", r.Response, r.Error)
	require.Equal(t, "here again", s.Ask("s1", "script: say here again").Response)
}

package e2e

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/printer"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// A decision, an end of a sub-agent and a cancel that a parked run is not told
// of, as when whoever made them died: the sweep tells it.
func TestAll_ParkedRunsAreSwept(t *testing.T) {
	s := stack(t)
	ask(t, s)
	w := s.StartWorker("SPOOL_WAIT_IN_RUN=100ms")
	child := func(file string) string {
		return script.Script(script.Task("general", script.Script(count(file), "say child")), "echo root:")
	}
	decided := pendingApproval(t, s, s.Send("decided", child("n")))
	cancelled := pendingApproval(t, s, s.Send("cancelled", child("m")))
	for _, r := range []spool.Reply{decided, cancelled} {
		for _, th := range tree(t, s, r.ThreadID) {
			parked(t, s, th.ID)
		}
	}
	w.Kill()
	_, err := s.Store.Decide(s.Ctx(), memory.Decision{By: "tester", Target: decided.Pending[0].ApprovalID, Verdict: memory.Approve})
	require.NoError(t, err)
	_, err = s.Store.RequestCancel(s.Ctx(), memory.CancelRequest{ThreadID: cancelled.ThreadID, TurnID: cancelled.TurnID, By: "tester"})
	require.NoError(t, err)
	s.StartWorker("SPOOL_WAIT_IN_RUN=100ms")
	require.Contains(t, s.Wait(decided).Response, "child")
	require.Equal(t, "cancelled", s.Wait(cancelled).Status)
	require.Equal(t, "run\n", s.File("n")+s.File("m"))
	for _, r := range []spool.Reply{decided, cancelled} {
		quiet(t, s, r.ThreadID)
	}
}

// Sub-agents end in the very moment in which their delegator parks, or continues
// as new: none of their ends is lost.
func TestAll_SubAgentsEndAsTheDelegatorParks(t *testing.T) {
	s := begin(t, "SPOOL_WAIT_IN_RUN=100ms", "SPOOL_MAX_EVENTS=40")
	n := 8
	if tt.Long() {
		n = 60
	}
	var people sync.WaitGroup
	for i := range n {
		people.Go(func() {
			var tasks []string
			for j := range 3 {
				tasks = append(tasks, script.Task("general", fmt.Sprintf("script: first %dms say child", 40+(i*7+j*31)%160)))
			}
			for range 2 {
				r, err := s.Client.Send(s.Ctx(), s.Message(fmt.Sprintf("p%d", i%6), script.Script(script.Calls(tasks...), "echo root:")))
				if err != nil {
					t.Errorf("send: %v", err)
					return
				}
				end, err := s.Client.Wait(s.Ctx(), r.ThreadID, r.TurnID, spool.WaitOptions{Patient: true})
				if err != nil || end.Status != "completed" {
					t.Errorf("%s: %v %s", end.Status, err, end.Error)
				}
			}
		})
	}
	people.Wait()
	for i := range min(6, n) {
		quiet(t, s, s.Thread(fmt.Sprintf("p%d", i)))
	}
}

// A deploy that breaks the runs under way, as a change without a version gate
// does: show names the failing workflow task and its cause, and a cancel ends the
// turn all the same, by terminating the run. The thread goes on.
func TestAll_CancelOfAFailingWorkflowTask(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	r := s.Send("s1", script.Script(count("n"), slow("b", 60), "say never"))
	started(t, s, "b")
	begun, err := s.Temporal.DescribeWorkflow(s.Ctx(), r.ThreadID, "")
	require.NoError(t, err)
	w.Kill()
	w = s.SpawnFrom(buildVariant(t, "changed", changedBuild...))
	var out bytes.Buffer
	tt.Eventually(t, "show names the trouble", func() bool { // for a second, until the run is replaced
		v, err := s.Client.Show(s.Ctx(), r.ThreadID, false)
		if err != nil || v.Trouble == "" {
			return false
		}
		(&printer.Printer{Out: printer.NewWriter(&out)}).Thread(v)
		return true
	})
	require.Regexp(t, `trouble .*(?i)(nondetermin|non-determin)`, out.String())
	says(t, s, 0, "cancel", r.ThreadID)
	end := s.Wait(r)
	require.Equal(t, "cancelled", end.Status)
	run, err := s.Temporal.DescribeWorkflow(s.Ctx(), r.ThreadID, begun.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId())
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, run.RawResponse.GetWorkflowExecutionInfo().GetStatus())
	require.Equal(t, agent.ThreadCancelled, thread(t, s, r.ThreadID).Status)
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response, "the broken build serves new runs")
	require.Equal(t, 1, lines(s.File("n")))
	w.Stop()
	s.StartWorker()
	require.Equal(t, "back", s.Ask("s1", "script: say back").Response)
}

// Six kills of a worker within twelve seconds end none of the eight turns that
// it runs: no one of them is to blame.
func TestAll_KillsOfASharedWorkerEndNobody(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	var all []spool.Reply
	for i := range 8 {
		all = append(all, s.Send(fmt.Sprint("s", i), fmt.Sprintf("script: first 4s say fine %d", i)))
	}
	begun := time.Now()
	for range 6 {
		time.Sleep(1500 * time.Millisecond)
		w.Kill()
		w = s.StartWorker()
	}
	t.Logf("six kills in %s", time.Since(begun).Round(100*time.Millisecond))
	for i, r := range all {
		r = s.Wait(r)
		require.Equal(t, "completed", r.Status, r.Error)
		require.Equal(t, fmt.Sprint("fine ", i), r.Response)
	}
}

// A turn that kills its worker whenever it runs ends at the fifth, and says so.
func TestAll_ATurnThatKillsItsWorkerEnds(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	const task = "script: first 60s say never"
	r := s.Send("s1", task)
	for n := 1; n <= 5; n++ {
		tt.Eventually(t, fmt.Sprintf("the model is asked for time %d", n), func() bool { return s.Model.Asked(task, 0) == n })
		w.Kill()
		w = s.StartWorker()
	}
	r = s.Wait(r)
	require.Equal(t, "failed", r.Status)
	require.Contains(t, r.Error, "killed its worker 5 times")
	require.Equal(t, "limit", string(turns(t, s, r.ThreadID)[0].Reason))
	require.Equal(t, 5, s.Model.Asked(task, 0))
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response)
}

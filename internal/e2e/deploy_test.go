package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// Two builds that a person may find at work when they come back. The first puts
// a save behind a version gate. The second has another gate, and changes without
// one what every run does before it waits: a replay of that would fail.
var (
	gatedBuild = []edit{{
		File: "workflows/turn.go",
		Old:  "	if limit := r.claim.MaxSteps; limit > 0 && step > limit {\n",
		New: "	if workflow.GetVersion(r.save, \"deploy-gate\", workflow.DefaultVersion, 1) == 1 {\n" +
			"		if _, err := local[contract.WaitedOutput](r.save, contract.TurnWaited, \"\", r.ref(0)); err != nil {\n			return nil, err\n		}\n	}\n" +
			"	if limit := r.claim.MaxSteps; limit > 0 && step > limit {\n",
	}}
	changedBuild = []edit{{
		File: "workflows/run.go",
		Old:  "	r.setDeadline()\n	r.describe()\n",
		New: "	if _, err := local[contract.WaitedOutput](r.save, contract.TurnWaited, \"\", r.ref(0)); err != nil {\n		return err\n	}\n" +
			"	workflow.GetVersion(r.save, \"deploy-change\", workflow.DefaultVersion, 7)\n	r.describe()\n	r.setDeadline()\n",
	}}
)

// gates are the version gates that the history of a thread's latest run passed.
func gates(t *testing.T, s *tt.Stack, thread string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, e := range lastRun(t, s, thread) {
		m := e.GetMarkerRecordedEventAttributes()
		if e.GetEventType() == enumspb.EVENT_TYPE_MARKER_RECORDED && m.GetMarkerName() == "Version" {
			for _, p := range m.GetDetails()["change-id"].GetPayloads() {
				out[strings.Trim(string(p.GetData()), `"`)] = true
			}
		}
	}
	return out
}

// A turn waits for a person, below and above a sub-agent, while three deploys
// change prompts, tools and workflow code. It wakes on the newest build, waits
// again, and wakes on the oldest, as after a rollback.
func TestAll_WaitingThroughDeploys(t *testing.T) {
	s := stack(t)
	ask(t, s)
	gated := buildVariant(t, "gated", gatedBuild...)
	changed := buildVariant(t, "changed", changedBuild...)
	w := s.StartWorker("SPOOL_WAIT_IN_RUN=200ms")
	child := script.Script(script.Calls(add(6, 7), count("one")), count("two"), "say child end")
	r := s.Send("s1", script.Script(add(1, 2), script.Task("general", child), count("three"), "say root end"))
	r = pendingApproval(t, s, r)
	all := tree(t, s, r.ThreadID)
	require.Len(t, all, 2)
	waiting := func() {
		t.Helper()
		for _, th := range all {
			parked(t, s, th.ID)
		}
	}
	decide := func(r spool.Reply) {
		t.Helper()
		decide(t, s, r.Pending[0].ApprovalID, memory.Approve)
	}
	deploys := 0
	deploy := func(start func() *tt.Process) {
		t.Helper()
		w.Stop()
		w = start()
		deploys++
		require.Equal(t, "served", s.Ask("other", "script: say served").Response, "the new build is at work")
		require.Len(t, lastRun(t, s, r.ThreadID), 4, "the waiting run knows nothing of it")
	}

	waiting()
	deploy(func() *tt.Process { // other prompts, other tools
		template(t, s, "orchestrator", "tools: [ls]\n", "Quite another prompt.")
		template(t, s, "general", "tools: [ls]\n", "Another one.")
		return s.StartWorker("SPOOL_WAIT_IN_RUN=200ms")
	})
	deploy(func() *tt.Process { return s.SpawnFrom(gated, "SPOOL_WAIT_IN_RUN=200ms") })
	deploy(func() *tt.Process { return s.SpawnFrom(changed, "SPOOL_WAIT_IN_RUN=200ms") })
	require.Contains(t, gates(t, s, s.Thread("other")), "deploy-change", "that build has its own gate")
	decide(r)
	r2 := pendingOther(t, s, r)
	require.Equal(t, 1, lines(s.File("one")))

	waiting()
	deploy(func() *tt.Process { return s.StartWorker("SPOOL_WAIT_IN_RUN=200ms") }) // a rollback
	deploy(func() *tt.Process { return s.SpawnFrom(gated, "SPOOL_WAIT_IN_RUN=200ms") })
	decide(r2)
	r3 := pendingOther(t, s, r2)
	require.Equal(t, r.ThreadID, r3.Pending[0].ThreadID)
	parked(t, s, r.ThreadID)
	decide(r3)
	end := s.Wait(r)
	require.Equal(t, "root end", end.Response, end.Error)
	require.Contains(t, gates(t, s, r.ThreadID), "deploy-gate", "the run that woke passed the gate of the newest build")
	for _, file := range []string{"one", "two", "three"} {
		require.Equal(t, 1, lines(s.File(file)), file)
	}
	require.Equal(t, 5, deploys)
}

// pendingOther waits until the turn waits for another approval than before.
func pendingOther(t *testing.T, s *tt.Stack, before spool.Reply) spool.Reply {
	t.Helper()
	var now spool.Reply
	tt.Eventually(t, "the turn asks again", func() bool {
		open, err := s.Client.Approvals(s.Ctx(), before.ThreadID)
		now = before
		now.Pending = open
		return err == nil && len(open) == 1 && open[0].ApprovalID != before.Pending[0].ApprovalID
	})
	return now
}

// A worker of another build dies between the end of a turn and the end of its run: the
// run is ended all the same, and the thread goes on.
func TestAll_ARunThatOnlyAnotherBuildCouldEnd(t *testing.T) {
	s := stack(t)
	other := s.SpawnFrom(buildVariant(t, "changed", changedBuild...), "SPOOL_CRASH_AT=after-close")
	r := s.Send("s1", "script: say stored")
	select {
	case <-other.Done():
	case <-s.Ctx().Done():
	}
	s.StartWorker("SPOOL_KEEPER_AGE=1s")
	require.Equal(t, "stored", s.Wait(r).Response)
	tt.Eventually(t, "the run has ended", func() bool {
		open, err := s.Client.OpenRun(s.Ctx(), r.ThreadID)
		return err == nil && !open
	})
	require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
}

// The first attempt to go on with another build's run gets no answer, for its worker
// dies, so the history says nothing of why the later ones fail: the run is replaced all
// the same.
func TestAll_AnotherBuildsRunWhoseFirstAttemptIsLost(t *testing.T) {
	s := stack(t)
	ask(t, s)
	other := s.SpawnFrom(buildVariant(t, "changed", changedBuild...), "SPOOL_WAIT_IN_RUN=10s")
	r := pendingApproval(t, s, s.Send("s1", script.Script(count("one"), "say done")))
	other.Kill() // the next workflow task is that of the end of the wait
	queue := agent.TaskQueue(s.Store.ID())
	for lost := ""; lost != r.ThreadID; {
		ctx, stop := context.WithTimeout(s.Ctx(), time.Minute)
		defer stop()
		task, err := s.Temporal.WorkflowService().PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
			Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, Identity: "dies at once",
		})
		require.NoError(t, err)
		lost = task.GetWorkflowExecution().GetWorkflowId()
	}
	s.StartWorker("SPOOL_KEEPER_AGE=1s", "SPOOL_WAIT_IN_RUN=200ms")
	parked(t, s, r.ThreadID)
	decide(t, s, r.Pending[0].ApprovalID, memory.Approve)
	require.Equal(t, "done", s.Wait(r).Response)
	require.Equal(t, 1, lines(s.File("one")))
}

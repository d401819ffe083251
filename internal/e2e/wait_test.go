package e2e

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/activities"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/sqlite"
	"github.com/spool-agents/spool/memory/verify"
	"github.com/spool-agents/spool/workflows"
)

// oneAgent is a catalog of one template.
type oneAgent struct{ agent.SpecialistAgentConfig }

func (o oneAgent) Get(name string) (agent.SpecialistAgentConfig, bool) {
	return o.SpecialistAgentConfig, name == o.Name
}
func (o oneAgent) List() []agent.SpecialistAgentConfig {
	return []agent.SpecialistAgentConfig{o.SpecialistAgentConfig}
}

// week drives a thread's runs in an environment that skips time, with the real
// workflows, activities and store; what waits for nothing but time passes at once.
type week struct {
	t     *testing.T
	now   atomic.Int64 // unix ms
	store memory.ConversationMemoryStore
	acts  *activities.Activities
	runs  int
	waits int // runs that parked
}

func newWeek(t *testing.T, c agent.SpecialistAgentConfig) *week {
	t.Helper()
	w := &week{t: t}
	w.now.Store(time.Now().UnixMilli())
	store, err := sqlite.OpenMemory(t.Context(), sqlite.Options{Clock: func() time.Time { return time.UnixMilli(w.now.Load()) }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	tools, err := tool.New(tool.Builtin(tool.Options{})...)
	require.NoError(t, err)
	policy := agent.DefaultDelegationPolicy()
	policy.MaxTime = time.Minute
	w.store = store
	w.acts = &activities.Activities{
		Store: store, Model: script.Model{}, Tools: tools, Catalog: oneAgent{c}, Policy: policy, Workspace: t.TempDir(), Heartbeat: 10 * time.Second,
	}
	return w
}

// run drives the thread from run to run until one ends; at, in each run that is
// parked, happens after so long.
func (w *week) run(thread string, after time.Duration, at func(env *testsuite.TestWorkflowEnvironment)) {
	in := contract.TurnInput{StoreID: w.store.ID(), ThreadID: thread}
	for {
		w.runs++
		require.Less(w.t, w.runs, 20, "the thread goes on for ever")
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestWorkflowEnvironment()
		env.SetTestTimeout(tt.Patience)
		env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: tt.Patience}) // a slow machine is no deadlock
		env.SetStartTime(time.UnixMilli(w.now.Load()))
		env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: thread})
		workflows.Register(env)
		w.acts.Register(env)
		tick := func() { w.now.Store(env.Now().UnixMilli()) }
		env.SetOnTimerFiredListener(func(string) { tick() })
		if c := in.Carry; c != nil && c.Parked != "" {
			w.waits++
			env.RegisterDelayedCallback(func() { tick(); at(env) }, after)
		}
		env.ExecuteWorkflow(contract.ConversationTurn, in)
		tick()
		err := env.GetWorkflowError()
		var again *workflow.ContinueAsNewError
		if !errors.As(err, &again) {
			require.NoError(w.t, err)
			return
		}
		in = contract.TurnInput{}
		require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	}
}

// Rows 19, 76, 98: a turn with a limit of a minute waits a week for a person. No
// timeout strikes, no budget is used, and nothing runs meanwhile.
func TestRow76_WaitingAWeek(t *testing.T) {
	t.Parallel()
	waitAWeek(t, count("gated"), func(t *testing.T, store memory.ConversationMemoryStore) {
		open, err := store.Approvals(t.Context(), memory.ApprovalFilter{OpenOnly: true})
		require.NoError(t, err)
		require.Len(t, open, 1)
		_, err = store.Decide(t.Context(), memory.Decision{By: "u", Target: open[0].ID, Verdict: memory.Approve})
		require.NoError(t, err)
	})
}

func TestRow98_WaitingAWeekForAnAnswer(t *testing.T) {
	t.Parallel()
	waitAWeek(t, llmtest.Ask("well?"), func(t *testing.T, store memory.ConversationMemoryStore) {
		open, err := store.Questions(t.Context(), memory.QuestionFilter{OpenOnly: true})
		require.NoError(t, err)
		require.Len(t, open, 1)
		_, err = store.Answer(t.Context(), memory.AnswerRequest{By: "u", Target: open[0].ID, Text: "yes"})
		require.NoError(t, err)
	})
}

func waitAWeek(t *testing.T, step string, act func(*testing.T, memory.ConversationMemoryStore)) {
	t.Helper()
	w := newWeek(t, agent.SpecialistAgentConfig{Name: "orchestrator", SystemPrompt: "x", TimeoutMs: 60_000, MaxSteps: 5})
	m := memory.SendRequest{UserID: "u", SessionID: "s", ConversationID: "default", MessageID: "m", Content: agent.Text(script.Script(step, "say thanks"))}
	sent, err := w.store.Send(t.Context(), m)
	require.NoError(t, err)
	w.run(sent.ThreadID, 7*24*time.Hour, func(env *testsuite.TestWorkflowEnvironment) {
		act(t, w.store)
		env.SignalWorkflow(contract.SignalNudge, nil)
	})
	turn, err := w.store.Turn(t.Context(), sent.TurnID)
	require.NoError(t, err)
	require.Equal(t, agent.ThreadCompleted, turn.Outcome, turn.Error)
	require.Equal(t, "thanks", turn.Answer)
	require.Equal(t, []int{2, 1}, []int{w.runs, w.waits}, "one run until the wait, one that was parked and went on")
	require.InDelta(t, (7*24*time.Hour + contract.WaitInRun).Seconds(), (time.Duration(turn.WaitedMs) * time.Millisecond).Seconds(), 60)
	report, err := verify.Check(t.Context(), w.store, verify.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Violations)
}

// lastRun is the history of a thread's latest run.
func lastRun(t *testing.T, s *tt.Stack, thread string) []*historypb.HistoryEvent {
	t.Helper()
	var events []*historypb.HistoryEvent
	for it := s.Temporal.GetWorkflowHistory(s.Ctx(), thread, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

// parked waits until the run of a thread has parked, and checks that its history
// is empty: it began, a worker looked at it, and it recorded nothing.
func parked(t *testing.T, s *tt.Stack, thread string) {
	t.Helper()
	tt.Eventually(t, "the run of "+thread+" parks", func() bool {
		events := lastRun(t, s, thread)
		var in contract.TurnInput
		started := events[0].GetWorkflowExecutionStartedEventAttributes()
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(started.GetInput(), &in))
		return in.Carry != nil && in.Carry.Parked != "" && len(events) == 4
	})
	require.Less(t, bytesOf(lastRun(t, s, thread)), 4000) // with what it shows in the web UI
}

func bytesOf(events []*historypb.HistoryEvent) (n int) {
	for _, e := range events {
		n += e.Size()
	}
	return n
}

// Rows 76, 77, E1: a grandchild waits for a person. The runs of its whole line
// wait with an empty history, over a restart of the server and of all workers,
// and go on at once when the person has decided.
func TestRow76_WaitsOverRestarts(t *testing.T) {
	t.Parallel()
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	ask(t, s)
	w := s.StartWorker("SPOOL_WAIT_IN_RUN=200ms")
	grandchild := script.Script(script.Calls(add(6, 7), count("gated")), "echo grandchild:")
	child := script.Script(script.Task("general", grandchild), "echo child:")
	r := pendingApproval(t, s, s.Send("s1", script.Script(script.Calls(script.Task("general", child), script.Task("general", "script: say quick")), "echo root:")))
	all := tree(t, s, r.ThreadID)
	require.Len(t, all, 4)
	for _, th := range []agent.Thread{all[0], all[1], all[2]} {
		parked(t, s, th.ID)
	}
	require.Equal(t, all[2].ID, r.Pending[0].ThreadID)
	require.Equal(t, "general", r.Pending[0].Agent)

	w.Kill()
	server.Kill()
	server.Restart(t)
	s.StartWorker()
	out := says(t, s, 0, "approvals", r.ThreadID)
	require.Contains(t, out, "general  "+all[2].ID)
	says(t, s, 0, "approve", r.Pending[0].ApprovalID)
	end := s.Wait(r)
	require.Equal(t, "completed", end.Status, end.Error)
	require.Contains(t, end.Response, "grandchild:")
	require.Contains(t, end.Response, "quick")
	require.Equal(t, 1, lines(s.File("gated")))
	s.Verify()
}

type history struct {
	events []*historypb.HistoryEvent
	bytes  int
	runs   int
}

// historyOf reads the whole chain of runs of a thread's latest turn, newest run last.
func historyOf(t *testing.T, s *tt.Stack, thread string) history {
	t.Helper()
	var h history
	run := ""
	for {
		var events []*historypb.HistoryEvent
		for it := s.Temporal.GetWorkflowHistory(s.Ctx(), thread, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
			e, err := it.Next()
			require.NoError(t, err)
			events = append(events, e)
			h.bytes += e.Size()
		}
		h.events = append(events, h.events...)
		h.runs++
		run = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		if run == "" {
			return h
		}
	}
}

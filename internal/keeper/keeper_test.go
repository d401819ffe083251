package keeper

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/memory"
)

// manyOpen is a store with open turns, which counts what is read of them.
type manyOpen struct {
	memory.ConversationMemoryStore
	turns []memory.OpenTurn
	read  int
}

func (s *manyOpen) OpenTurns(_ context.Context, f memory.OpenTurnFilter) (page []memory.OpenTurn, _ error) {
	for _, t := range s.turns {
		if t.TurnID > f.After.TurnID && len(page) < f.Limit {
			page = append(page, t)
		}
	}
	s.read += len(page)
	return page, nil
}

// running is a Temporal in which every workflow runs.
type running struct {
	client.Client
	asked, signalled map[string]int
}

func (c running) SignalWithStartWorkflow(_ context.Context, id, _ string, _ any, _ client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	c.signalled[id]++
	return nil, nil
}

func (c running) DescribeWorkflow(_ context.Context, id, _ string) (*client.WorkflowExecutionDescription, error) {
	c.asked[id]++
	return &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
	}}, nil
}

// A sweep reads a page of the open turns, however many there are; a round looks at
// each once, and the next begins five seconds after it at the earliest.
func TestReconcileReadsAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, temporal := &manyOpen{}, running{asked: map[string]int{}}
		for i := range 2*lookAtMost + 1 {
			store.turns = append(store.turns, memory.OpenTurn{ThreadID: fmt.Sprintf("s%03d/default", i), TurnID: fmt.Sprintf("t%03d", i)})
		}
		k := &Keeper{Store: store, Client: temporal}
		for range 3 {
			before := store.read
			require.NoError(t, k.Reconcile(t.Context()))
			require.LessOrEqual(t, store.read-before, lookAtMost)
		}
		require.Len(t, temporal.asked, len(store.turns))
		require.NoError(t, k.Reconcile(t.Context()))
		require.Equal(t, len(store.turns), store.read, "the round is over")
		time.Sleep(DefaultAge / 2)
		require.NoError(t, k.Reconcile(t.Context()))
		require.Equal(t, 2, temporal.asked["s000/default"])
	})
}

// A turn whose run has not reacted to what people settled, and that the sweep no longer sees, is nudged at most once a minute.
func TestReconcileNudgesWhatPeopleSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, temporal := &manyOpen{}, running{asked: map[string]int{}, signalled: map[string]int{}}
		store.turns = []memory.OpenTurn{{ThreadID: "a/default", TurnID: "t1", Settled: true}, {ThreadID: "b/default", TurnID: "t2"}}
		k := &Keeper{Store: store, Client: temporal, Nudger: nudge.Nudger{Client: temporal}}
		for range 24 {
			require.NoError(t, k.Reconcile(t.Context()))
			time.Sleep(DefaultAge / 2)
		}
		require.Equal(t, map[string]int{"a/default": 2}, temporal.signalled)
	})
}

// atRest is a store in which nothing is overdue.
type atRest struct {
	manyOpen
	changes int64
	sweeps  int
}

func (*atRest) ID() string { return "store" }

func (s *atRest) Changed(context.Context) (int64, error) { return s.changes, nil }

func (s *atRest) Overdue(context.Context, time.Duration, int) ([]memory.Overdue, error) {
	s.sweeps++
	return nil, nil
}

// A store in which nobody commits is not swept; one in which somebody has is swept until
// what came with that commit would be overdue.
func TestAQuietStoreIsNotSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &atRest{}
		k := &Keeper{Store: store, Client: running{}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		for range 3 {
			time.Sleep(20 * time.Second)
			swept := store.sweeps
			require.Positive(t, swept)
			time.Sleep(10 * time.Minute)
			require.Equal(t, swept, store.sweeps)
			store.sweeps, store.changes = 0, store.changes+1
			time.Sleep(k.sweepAge() + 2*sweepEvery)
			synctest.Wait()
			require.GreaterOrEqual(t, store.sweeps, 2)
		}
		stop()
		require.NoError(t, <-ended)
	})
}

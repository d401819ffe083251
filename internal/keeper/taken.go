package keeper

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/memory"
)

// A worker that takes over a run may be of another build than the one that began it. Its
// first attempt is refused, and Temporal gives the second one to any worker, at once. If
// that fails as well nobody says so for seconds. So a run that was refused and has not gone
// on a moment later is replaced by one that goes on from the store. A worker of the run's
// own build that does go on just then loses its place only: what it saves is saved.

// goesOnWithin is how long the second attempt may take.
const goesOnWithin = 500 * time.Millisecond

// InterceptWorkflow notes the runs that this worker takes over.
func (k *Keeper) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &taking{interceptor.WorkflowInboundInterceptorBase{Next: next}, k}
}

type taking struct {
	interceptor.WorkflowInboundInterceptorBase
	k *Keeper
}

func (t *taking) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	note := func() { t.k.taken.Store(workflow.GetInfo(ctx).WorkflowExecution.ID, time.Now()) }
	if workflow.IsReplaying(ctx) {
		note()
	}
	defer func() {
		if said := recover(); said != nil {
			note() // a run that carries state of a newer build says so like this
			panic(said)
		}
	}()
	return t.Next.ExecuteWorkflow(ctx, in)
}

// followTaken replaces runs that this worker took over and only another build can go on
// with, until ctx ends.
func (k *Keeper) followTaken(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(goesOnWithin / 2):
		}
		var looks sync.WaitGroup
		for thread, at := range k.taken.Range {
			if time.Since(at.(time.Time)) < goesOnWithin {
				continue
			}
			looks.Go(func() {
				again, err := k.replace(ctx, thread.(string))
				if err != nil && ctx.Err() == nil {
					again = true
					k.Log.Warn("a run that was taken over cannot be looked at; it is repeated", "thread", thread, "error", err)
				}
				if !again || !k.taken.CompareAndSwap(thread, at, time.Now().Add(sweepEvery)) {
					k.taken.CompareAndDelete(thread, at)
				}
			})
		}
		looks.Wait()
	}
}

// replace replaces the run of a thread if only another build can go on with it. It is to
// be looked at again while activities of the run still end.
func (k *Keeper) replace(ctx context.Context, thread string) (again bool, err error) {
	run, err := lastRun(ctx, k.Client, thread)
	switch {
	case err != nil || !isOpen(run) || run.GetPendingWorkflowTask() == nil:
		return false, err
	case len(run.GetPendingActivities()) > 0:
		return true, nil
	case !k.otherBuilds(ctx, run):
		return false, nil
	}
	t, err := k.Store.Thread(ctx, "", thread)
	if err != nil {
		return false, err
	}
	if t.OpenTurnID == "" {
		return false, k.free(ctx, thread)
	}
	_, err = k.settle(ctx, memory.OpenTurn{ThreadID: thread, TurnID: t.OpenTurnID, Kind: t.Kind}, run)
	return false, err
}

package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/internal/contract"
)

// errStale says that the turn is no longer the thread's open one: somebody else
// closed it, so this run has nothing left to do for it.
var errStale = errors.New("the turn was closed elsewhere")

// errCancelled says that a cancel of the turn is pending in the store.
var errCancelled = errors.New("a cancel of the turn is pending")

// local runs one store transaction as a local activity, on a context that is
// never cancelled. It repeats while the store is away: that delays a turn and never fails it.
func local[T any](ctx workflow.Context, name, summary string, in any) (T, error) {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    contract.SaveTimeout,
		ScheduleToCloseTimeout: contract.SaveFor,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
		Summary:                summary,
	})
	var out T
	err := workflow.ExecuteLocalActivity(ctx, name, in).Get(ctx, &out)
	return out, typed(err)
}

// typed turns the application errors that the loop reacts to into sentinels.
func typed(err error) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		switch app.Type() {
		case contract.ErrTypeStale:
			return errStale
		case contract.ErrTypeCancelled:
			return errCancelled
		}
	}
	if temporal.IsCanceledError(err) {
		return errCancelled
	}
	return err
}

// regular starts an activity on the turn's context. Retries are unlimited:
// the activity itself decides what is not worth another attempt.
func (r *run) regular(name, summary string, timeout time.Duration, in any) workflow.Future {
	ctx := workflow.WithActivityOptions(r.turnCtx, workflow.ActivityOptions{
		StartToCloseTimeout: timeout,
		HeartbeatTimeout:    time.Duration(r.claim.Timing.HeartbeatMs) * time.Millisecond,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 1.5, MaximumInterval: time.Second},
		Summary:             summary,
	})
	return workflow.ExecuteActivity(ctx, name, in)
}

// settle waits for ready. When the turn is to stop it waits only a little
// longer: what an activity does after that meets the store's fences.
func (r *run) settle(ready func() bool) {
	_ = workflow.Await(r.save, func() bool { return ready() || r.stop != "" })
	if !ready() {
		_, _ = awaitFor(r.save, contract.CancelGrace, "the cancelled activities end", ready)
	}
}

// await returns the result of a regular activity. The error of one that had to
// stop says nothing: Temporal does not repeat it, whatever became of its worker.
func await[T any](r *run, f workflow.Future) (T, error) {
	var out T
	r.settle(f.IsReady)
	if !f.IsReady() {
		return out, errCancelled
	}
	err := typed(f.Get(r.save, &out))
	if err != nil && r.stop != "" && !errors.Is(err, errStale) {
		err = errCancelled
	}
	return out, err
}

// awaitFor waits for a condition, at most so long; summary is what its timer is for.
func awaitFor(ctx workflow.Context, most time.Duration, summary string, ready func() bool) (bool, error) {
	return workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: most, TimerOptions: workflow.TimerOptions{Summary: summary}}, ready)
}

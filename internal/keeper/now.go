package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/spool-agents/spool/memory"
)

// Now reconciles at once: every open turn without an open run, seen twice with
// wait in between, is gone on with or closed. It returns what was done.
func (k *Keeper) Now(ctx context.Context, wait time.Duration) (done []string, err error) {
	first, err := k.withoutRun(ctx)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(wait):
	}
	second, err := k.withoutRun(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for turn, status := range second {
		if _, before := first[turn]; !before {
			continue
		}
		if err := k.settle(ctx, turn, status); err != nil {
			errs = append(errs, err)
			continue
		}
		what := "closed as failed(terminated): its run is gone (" + status.String() + ")"
		if status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED || status == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED {
			what = "given a new run, which goes on from what the store holds"
		}
		done = append(done, fmt.Sprintf("%s: turn %s is %s", turn.ThreadID, turn.TurnID, what))
	}
	return done, errors.Join(errs...)
}

// withoutRun finds open turns whose workflow id has no open run.
func (k *Keeper) withoutRun(ctx context.Context) (map[memory.OpenTurn]enumspb.WorkflowExecutionStatus, error) {
	open, err := k.Store.OpenTurns(ctx, maxOpen)
	if err != nil {
		return nil, err
	}
	out := map[memory.OpenTurn]enumspb.WorkflowExecutionStatus{}
	for _, t := range open {
		status, err := lastRun(ctx, k.Client, t.ThreadID)
		if err != nil {
			return nil, err
		}
		if status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			out[t] = status
		}
	}
	return out, nil
}

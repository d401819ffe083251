package activities

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	commonpb "go.temporal.io/api/common/v1"

	"go.temporal.io/sdk/activity"

	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/nudge"
)

// Nudge hints to threads that something waits for them in the store.
func (a *Activities) Nudge(ctx context.Context, in contract.NudgeInput) error {
	n := nudge.Nudger{Client: a.Temporal, StoreID: a.Store.ID(), TaskQueue: a.TaskQueue}
	var errs []error
	for _, t := range in.Targets {
		errs = append(errs, n.Nudge(ctx, t))
	}
	return errors.Join(errs...)
}

// releaseSticky frees this activity's workflow from the sticky queue of a dead
// worker, which would hold its next workflow task for seconds.
func (a *Activities) releaseSticky(ctx context.Context) {
	if a.Temporal == nil {
		return
	}
	info := activity.GetInfo(ctx)
	_, err := a.Temporal.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
		Namespace: info.Namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: info.WorkflowExecution.ID, RunId: info.WorkflowExecution.RunID},
	})
	var gone *serviceerror.NotFound
	if err != nil && !errors.As(err, &gone) {
		activity.GetLogger(ctx).Warn("could not release the sticky queue", "error", err)
	}
}

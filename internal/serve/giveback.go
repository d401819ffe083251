package serve

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/spool-agents/spool/internal/contract"
)

// giveBack ends the local activities of a worker that is lost, so that their
// workflows go on elsewhere. The SDK repeats a local activity where it is while its
// next try is due within a workflow task, and keeps the task for it; a later try is a
// timer of the workflow, and whichever worker gets that task makes it.
type giveBack struct {
	interceptor.WorkerInterceptorBase
	lost context.Context
}

func (g *giveBack) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &givingBack{interceptor.ActivityInboundInterceptorBase{Next: next}, g.lost}
}

type givingBack struct {
	interceptor.ActivityInboundInterceptorBase
	lost context.Context
}

// later is when another worker tries: after the longest time that the SDK waits itself.
const later = contract.WorkflowTaskTimeout + 100*time.Millisecond

func (g *givingBack) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if !activity.GetInfo(ctx).IsLocalActivity {
		return g.Next.ExecuteActivity(ctx, in)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.lost, cancel)()
	out, err := g.Next.ExecuteActivity(ctx, in)
	var app *temporal.ApplicationError
	if err == nil || g.lost.Err() == nil || errors.As(err, &app) && app.NonRetryable() {
		return out, err
	}
	return nil, temporal.NewApplicationErrorWithOptions("this worker has lost what it needs; another one goes on", contract.ErrTypeStore,
		temporal.ApplicationErrorOptions{NextRetryDelay: later, Cause: err})
}

package telemetry

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/spool-agents/spool/internal/contract"
)

// Interceptor counts what has to be tried again, and reports refused delegations. It touches
// activities only: nothing of it is seen by workflow code or stands in a history.
// Nil for a nil Telemetry.
func (t *Telemetry) Interceptor() []interceptor.WorkerInterceptor {
	if t == nil {
		return nil
	}
	return []interceptor.WorkerInterceptor{&workers{t: t}}
}

type workers struct {
	interceptor.WorkerInterceptorBase
	t *Telemetry
}

func (w *workers) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &inbound{interceptor.ActivityInboundInterceptorBase{Next: next}, w.t}
}

type inbound struct {
	interceptor.ActivityInboundInterceptorBase
	t *Telemetry
}

func (i *inbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := i.Next.ExecuteActivity(ctx, in)
	var app *temporal.ApplicationError
	if errors.As(err, &app) && !app.NonRetryable() && app.Type() != contract.ErrTypeWaiting {
		i.t.meters.retried(ctx, activity.GetInfo(ctx).ActivityType.Name, app.Type())
	}
	if d, ok := out.(contract.DelegationOutput); ok && err == nil && d.Refused && len(in.Args) == 1 {
		if ref, ok := in.Args[0].(contract.Ref); ok {
			i.t.later(func(ctx context.Context) { i.t.refused(ctx, ref.Call) })
		}
	}
	return out, err
}

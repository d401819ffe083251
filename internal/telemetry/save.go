package telemetry

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/spool-agents/spool/internal/contract"
)

// saves are the activities that write what a turn has come to.
var saves = []string{
	contract.SaveUserMessage, contract.SaveToolRound, contract.SaveDenial, contract.SaveFinalAnswer, contract.CloseTurn,
	contract.OpenApproval, contract.OpenQuestion, contract.OpenDelegation,
}

// Interceptor reports saves, and counts what has to be tried again. It touches
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

// ExecuteActivity runs the activity and reports it.
func (i *inbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	began := time.Now()
	out, err := i.Next.ExecuteActivity(ctx, in)
	info := activity.GetInfo(ctx)
	name := info.ActivityType.Name
	var app *temporal.ApplicationError
	if errors.As(err, &app) && !app.NonRetryable() && app.Type() != contract.ErrTypeWaiting {
		i.t.meters.retried(ctx, name, app.Type())
	}
	if slices.Contains(saves, name) && len(in.Args) == 1 {
		i.t.reportSave(save{name, info.WorkflowExecution.ID, int(info.Attempt), began, time.Now(), err}, in.Args[0], out)
	}
	return out, err
}

// save is a save that was tried.
type save struct {
	name, thread string
	attempt      int
	began, ended time.Time
	err          error
}

func (t *Telemetry) reportSave(s save, in, out any) {
	if ref, ok := saved(in, out); ok {
		t.later(func(ctx context.Context) { t.saveSpan(ctx, s, ref) })
	}
	if d, ok := out.(contract.DelegationOutput); ok && s.err == nil && d.Refused {
		t.later(func(ctx context.Context) { t.refused(ctx, in.(contract.Ref).Call) })
	}
}

// saved is what a save was about. A claim that found nothing is about nothing, and
// one that found its turn under way has saved nothing.
func saved(in, out any) (contract.Ref, bool) {
	switch in := in.(type) {
	case contract.Ref:
		return in, true
	case contract.CloseInput:
		return in.Ref, true
	case contract.ClaimInput:
		claim, _ := out.(contract.ClaimOutput)
		return contract.Ref{Turn: claim.Turn}, claim.Turn != "" && claim.Step == 1 && !in.Park
	}
	return contract.Ref{}, false
}

func (t *Telemetry) saveSpan(ctx context.Context, s save, ref contract.Ref) {
	thread, err := t.o.Store.Thread(ctx, "", s.thread)
	if err != nil {
		thread.ID = s.thread
	}
	p := t.place(ctx, ref.Turn, thread)
	kv := append(p.attributes(), keySave.String(s.name), keyAttempt.Int(s.attempt))
	if ref.Step > 0 {
		kv = append(kv, keyStep.Int(ref.Step))
	}
	_, span := t.tracer.start(ctx, "save "+s.name, p.trace(), randomSpan(), p.self(), trace.WithTimestamp(s.began), trace.WithAttributes(kv...))
	finish(span, s.ended, errorType(s.err))
}

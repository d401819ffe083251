package telemetry

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// instruments are a worker's metrics. No attribute of theirs is an id: agents, models
// and tools are as many as somebody has set up, the rest are words of ours.
type instruments struct {
	turns    metric.Int64Counter
	turnTime metric.Float64Histogram
	retries  metric.Int64Counter
	toolRun  metric.Float64Histogram
	model    metric.Float64Histogram
	token    metric.Int64Histogram
	gauges   metric.Registration
}

// Boundaries of histograms: those of the semantic conventions for models; tools and
// turns may take longer.
var (
	modelSeconds = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	tokenCounts  = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
	longSeconds  = metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
)

func newInstruments(m metric.Meter, store memory.ConversationMemoryStore) (instruments, error) {
	var i instruments
	errs := make([]error, 7)
	i.turns, errs[0] = m.Int64Counter("spool.turns", metric.WithUnit("{turn}"), metric.WithDescription("Turns that ended, by outcome."))
	i.turnTime, errs[1] = m.Float64Histogram("spool.turn.duration", metric.WithUnit("s"), longSeconds, metric.WithDescription("Time from the claim of a turn to its close, waiting included."))
	i.retries, errs[2] = m.Int64Counter("spool.retries", metric.WithUnit("{attempt}"), metric.WithDescription("Attempts of activities that have to be made again."))
	i.toolRun, errs[3] = m.Float64Histogram("spool.tool.duration", metric.WithUnit("s"), longSeconds, metric.WithDescription("Time of tool runs, by tool and status."))
	i.model, errs[4] = m.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"), modelSeconds, metric.WithDescription("Time of model calls."))
	i.token, errs[5] = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"), tokenCounts, metric.WithDescription("Tokens of model calls, by type."))
	i.gauges, errs[6] = gauges(m, store)
	return i, errors.Join(errs...)
}

// loadWithin bounds the reading of the gauges: a store that cannot be reached delays no other
// metric by more.
const loadWithin = 5 * time.Second

// gauges are those of the whole store. Every worker reports the same: the largest
// counts, not the sum.
func gauges(m metric.Meter, store memory.ConversationMemoryStore) (metric.Registration, error) {
	var errs []error
	gauge := func(name, unit, text string) metric.Int64ObservableGauge {
		g, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text+" Of the whole store: each worker reports the same."))
		errs = append(errs, err)
		return g
	}
	open := gauge("spool.turns.open", "{turn}", "Turns that are open.")
	waiting := gauge("spool.inbox.waiting", "{message}", "Inbox entries that wait for a turn.")
	approvals := gauge("spool.approvals.waiting", "{approval}", "Approvals that wait for a person.")
	questions := gauge("spool.questions.waiting", "{question}", "Questions that wait for a person.")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, loadWithin)
		defer cancel()
		load, err := store.Load(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(open, load.OpenTurns)
		o.ObserveInt64(waiting, load.Waiting)
		o.ObserveInt64(approvals, load.Approvals)
		o.ObserveInt64(questions, load.Questions)
		return nil
	}, open, waiting, approvals, questions)
}

func (i instruments) retried(ctx context.Context, what, why string) {
	i.retries.Add(ctx, 1, metric.WithAttributes(keySave.String(what), keyError.String(why)))
}

func (i instruments) toolTime(ctx context.Context, d time.Duration, tool, status string) {
	i.toolRun.Record(ctx, d.Seconds(), metric.WithAttributes(keyTool.String(tool), keyStatus.String(status)))
}

func (i instruments) tokens(ctx context.Context, use agent.Usage, labels []attribute.KeyValue) {
	for kind, n := range map[string]int64{"input": use.PromptTokens, "output": use.CompletionTokens} {
		if n > 0 {
			i.token.Record(ctx, n, metric.WithAttributes(append(labels[:len(labels):len(labels)], keyTokenType.String(kind))...))
		}
	}
}

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
			i.t.later(func(ctx context.Context) {
				if call, thread, ok := i.t.callOf(ctx, ref.Call); ok {
					i.t.callSpan(ctx, i.t.place(ctx, call.TurnID, thread), call, call.CreatedAt, call.UpdatedAt, call.Status, cmp.Or(string(call.ErrorReason), string(call.Status)))
				}
			})
		}
	}
	return out, err
}

package telemetry

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Sender reports what a client sends.
type Sender struct {
	tracers  trace.TracerProvider
	meters   metric.MeterProvider
	once     sync.Once // a server makes clients by the request, most of which send nothing
	tracer   tracer
	messages metric.Int64Counter
}

// NewSender makes the telemetry of a client; nil without providers.
func NewSender(tracers trace.TracerProvider, meters metric.MeterProvider) *Sender {
	if tracers == nil && meters == nil {
		return nil
	}
	return &Sender{tracers: cmp.Or[trace.TracerProvider](tracers, tracenoop.NewTracerProvider()), meters: cmp.Or[metric.MeterProvider](meters, metricnoop.NewMeterProvider())}
}

func (s *Sender) begin() {
	s.tracer = newTracer(s.tracers)
	name, unit := "spool.messages", metric.WithUnit("{message}")
	var err error
	s.messages, err = s.meters.Meter(scope).Int64Counter(name, unit, metric.WithDescription("Messages and retries that were sent, by what became of them."))
	if err != nil { // a message is not refused for it
		s.messages, _ = metricnoop.NewMeterProvider().Meter(scope).Int64Counter(name, unit)
	}
}

// Sent reports a message or a retry. Its span stands in the trace of its turn and is
// linked with the caller's span in ctx, both ways. A repeated message is the same
// one, so it has no span of its own.
func (s *Sender) Sent(ctx context.Context, kind memory.EntryKind, began time.Time, r memory.SendResult, err error) {
	if s == nil {
		return
	}
	s.once.Do(s.begin)
	outcome := string(agent.CodeOf(err))
	switch {
	case err != nil:
	case r.Repeated:
		outcome = "repeated"
	case r.Answered != nil:
		outcome = "answered"
	case r.Idle:
		outcome = "started"
	default:
		outcome = "queued"
	}
	s.messages.Add(ctx, 1, metric.WithAttributes(attribute.String("spool.entry_kind", string(kind)), keyOutcome.String(outcome)))
	if err != nil || r.Repeated || r.TurnID == "" {
		return
	}
	tr, root := TraceID(r.TurnID), spanID(spanMessage, r.TurnID)
	options := []trace.SpanStartOption{
		trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(keyThread.String(r.ThreadID), keyTurn.String(r.TurnID), keyMessage.String(r.MessageID), keyOutcome.String(outcome)),
	}
	caller := trace.SpanFromContext(ctx)
	if caller.SpanContext().IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caller.SpanContext()}))
	}
	_, span := s.tracer.start(ctx, "send", tr, spanID(spanSend, r.TurnID, r.MessageID), root, options...)
	if caller.IsRecording() {
		caller.AddLink(trace.Link{SpanContext: span.SpanContext(), Attributes: []attribute.KeyValue{keyTurn.String(r.TurnID)}})
		caller.SetAttributes(keyThread.String(r.ThreadID), keyTurn.String(r.TurnID))
	}
	span.End()
}

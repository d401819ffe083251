// Package telemetry reports to OpenTelemetry what turns do: spans of turns, model calls
// and tools, and metrics. docs/telemetry.md lists them.
//
// What makes spans is what happens in activities and in the store, never workflow
// code, so replays and evicted caches double nothing, and histories know nothing of
// it. Trace and span ids are derived (see TraceID): every process finds the place of
// what it does in the trace without being handed a context, also after a kill, a
// continue-as-new or days of waiting.
//
// No span or metric holds what people, models or tools say, unless
// Options.Content is set. A nil *Telemetry and a nil *Sender do nothing.
package telemetry

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const scope = "github.com/spool-agents/spool"

// Options are what a worker's telemetry works with. Without a provider of traces and
// one of metrics there is none.
type Options struct {
	Tracers trace.TracerProvider
	Meters  metric.MeterProvider
	Store   memory.ConversationMemoryStore
	// Provider is the model provider of requests that name none; "" = "openai".
	Provider string
	// Content adds what is said to spans: messages, arguments and results.
	Content bool
}

// Telemetry is that of a worker. Its methods are safe for concurrent use, wait for
// no exporter, and fail nothing.
type Telemetry struct {
	o      Options
	tracer tracer
	meters instruments

	mu    sync.Mutex
	roots map[string]string   // turn → turn of the main thread
	ended map[string]struct{} // turns whose end was reported

	work   chan func(context.Context)
	closed chan struct{}
	done   chan struct{}
}

// Bounds of what is kept in memory.
const (
	mostRoots = 10_000
	mostWork  = 1_000
)

// New starts the telemetry of a worker; nil if the options have no provider. Close
// ends it.
func New(o Options) (*Telemetry, error) {
	if o.Tracers == nil && o.Meters == nil {
		return nil, nil
	}
	o.Tracers = cmp.Or[trace.TracerProvider](o.Tracers, tracenoop.NewTracerProvider())
	o.Meters = cmp.Or[metric.MeterProvider](o.Meters, metricnoop.NewMeterProvider())
	o.Provider = cmp.Or(o.Provider, "openai")
	t := &Telemetry{
		o: o, tracer: newTracer(o.Tracers), roots: map[string]string{}, ended: map[string]struct{}{},
		work: make(chan func(context.Context), mostWork), closed: make(chan struct{}), done: make(chan struct{}),
	}
	var err error
	if t.meters, err = newInstruments(o.Meters.Meter(scope), o.Store); err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "the meter provider refuses Spool's metrics")
	}
	go t.run()
	return t, nil
}

// Bounds of time: how long Close waits for what is left to do, and how long the
// store may take to say what one thing was.
const (
	closeWithin = 2 * time.Second
	readWithin  = 10 * time.Second
)

// Close reports what is left and returns, after closeWithin at the latest. Flushing the providers is up to whoever made them.
func (t *Telemetry) Close() {
	if t == nil {
		return
	}
	if t.meters.gauges != nil {
		_ = t.meters.gauges.Unregister() // of a provider that has ended
	}
	close(t.closed)
	select {
	case <-t.done:
	case <-time.After(closeWithin):
	}
}

// later runs what has to ask the store first, without making a turn wait for it. What
// is too much is dropped: what counts stands in the store.
func (t *Telemetry) later(f func(context.Context)) {
	select {
	case t.work <- f:
	default:
	}
}

func (t *Telemetry) run() {
	defer close(t.done)
	do := func(f func(context.Context)) {
		ctx, cancel := context.WithTimeout(context.Background(), readWithin)
		defer cancel()
		f(ctx)
	}
	for {
		select {
		case f := <-t.work:
			do(f)
		case <-t.closed:
			for len(t.work) > 0 {
				do(<-t.work)
			}
			return
		}
	}
}

// root is the turn of the main thread that a turn belongs to.
func (t *Telemetry) root(ctx context.Context, turnID string) string {
	var path []string
	for id := turnID; ; {
		path = append(path, id)
		t.mu.Lock()
		known, ok := t.roots[id]
		t.mu.Unlock()
		if ok {
			return t.remember(path, known)
		}
		turn, err := t.o.Store.Turn(ctx, id)
		if err != nil {
			return id // of a tree that is damaged, or a store that cannot be reached
		}
		if turn.DelegatorTurn == "" {
			return t.remember(path, id)
		}
		id = turn.DelegatorTurn
	}
}

func (t *Telemetry) remember(path []string, root string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.roots) >= mostRoots {
		clear(t.roots)
	}
	for _, id := range path {
		t.roots[id] = root
	}
	return root
}

type place struct {
	root   string // turn id
	turn   string
	thread agent.Thread
}

func (t *Telemetry) place(ctx context.Context, turnID string, thread agent.Thread) place {
	return place{root: t.root(ctx, turnID), turn: turnID, thread: thread}
}

func (p place) trace() trace.TraceID { return TraceID(p.root) }

func (p place) self() trace.SpanID { return spanID(spanTurn, p.turn) }

func (p place) attributes() []attribute.KeyValue {
	kv := []attribute.KeyValue{
		keyThread.String(p.thread.ID), keyTurn.String(p.turn), keyRoot.String(p.thread.RootThreadID),
		keyConversation.String(p.thread.ID), keyAgentName.String(agentName(p.thread)),
	}
	if p.thread.AgentID != "" {
		kv = append(kv, keyAgentID.String(p.thread.AgentID))
	}
	return kv
}

// agentName is the agent of a thread; what a sender made up is none.
func agentName(t agent.Thread) string {
	switch {
	case t.Config.Missing != "":
		return unknown
	case t.Config.Name != "":
		return t.Config.Name
	case t.AgentType != "":
		return t.AgentType
	}
	return unknown
}

const unknown = "unknown"

// Foreign reports whether the tracer provider gives spans ids of its own.
func (t *Telemetry) Foreign() bool { return t != nil && t.tracer.foreign }

// tracer makes spans with derived ids.
type tracer struct {
	trace.Tracer
	foreign bool // the provider was not made with IDs
}

func newTracer(p trace.TracerProvider) tracer {
	t := tracer{Tracer: p.Tracer(scope)}
	want := trace.SpanID{1}
	// Not ended, so it is not exported.
	_, probe := t.start(context.Background(), "probe", trace.TraceID{1}, want, trace.SpanID{})
	t.foreign = probe.SpanContext().IsValid() && probe.SpanContext().SpanID() != want
	return t
}

// start begins a span with derived ids. parent is a span of the same trace, or zero.
func (t tracer) start(ctx context.Context, name string, tr trace.TraceID, id, parent trace.SpanID, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !parent.IsValid() && t.foreign {
		parent = id // so that it is at least in its trace
	}
	above := trace.SpanContext{}
	if parent.IsValid() {
		above = trace.NewSpanContext(trace.SpanContextConfig{TraceID: tr, SpanID: parent, TraceFlags: trace.FlagsSampled, Remote: true})
	}
	to := context.WithValue(trace.ContextWithSpanContext(ctx, above), derivedKey{}, derived{tr, id})
	_, span := t.Tracer.Start(to, name, o...)
	// Not the context that Start returns: spans below must not be given these ids.
	return trace.ContextWithSpan(ctx, span), span
}

// finish ends a span. why is what went wrong, in a word of ours, or empty: texts of
// errors may quote what was said.
func finish(span trace.Span, at time.Time, why string, kv ...attribute.KeyValue) {
	span.SetAttributes(kv...)
	if why != "" {
		span.SetAttributes(keyError.String(why))
		span.SetStatus(codes.Error, why)
	}
	span.End(trace.WithTimestamp(at))
}

package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"go.opentelemetry.io/otel/trace"
)

// TraceID is the trace of a main thread's turn and of all sub-agents' turns below it.
func TraceID(turnID string) (id trace.TraceID) {
	copy(id[:], digest("trace", turnID))
	return id
}

// What spans are derived of.
const (
	spanMessage  = "message"  // turn id
	spanSend     = "send"     // turn id
	spanTurn     = "turn"     // turn id
	spanModel    = "model"    // turn id, step, purpose, attempt
	spanTool     = "tool"     // call id, attempt
	spanCall     = "call"     // call id: of what no activity runs
	spanApproval = "approval" // approval id
)

// spanID derives the id of a span.
func spanID(kind string, of ...string) (id trace.SpanID) {
	copy(id[:], digest(append([]string{kind}, of...)...))
	return id
}

func digest(parts ...string) []byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}

// derived are the ids of a span about to be made; it travels in the context.
type derived struct {
	trace trace.TraceID
	span  trace.SpanID
}

type derivedKey struct{}

func derivedOf(ctx context.Context) (derived, bool) {
	d, ok := ctx.Value(derivedKey{}).(derived)
	return d, ok
}

// IDs is the IDGenerator that a tracer provider has to be made with: it gives Spool's
// spans their derived ids, and all others random ones. Safe for concurrent use.
type IDs struct{}

// NewIDs is asked for the ids of a span without a parent.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if d, ok := derivedOf(ctx); ok {
		return d.trace, d.span
	}
	var t trace.TraceID
	_, _ = rand.Read(t[:]) // never fails
	return t, randomSpan()
}

// NewSpanID is asked for the id of a span with a parent.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if d, ok := derivedOf(ctx); ok {
		return d.span
	}
	return randomSpan()
}

func randomSpan() (s trace.SpanID) {
	_, _ = rand.Read(s[:])
	return s
}

// Derived reports whether a span that is started with ctx has derived ids. Its
// parent is derived too and was not sampled anywhere, so a sampler has to decide by
// the trace id, which is the same in every process.
func Derived(ctx context.Context) bool {
	_, ok := derivedOf(ctx)
	return ok
}

package spool

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/spool-agents/spool/internal/telemetry"
)

// TraceIDs makes the ids of spans for the TracerProvider of a worker or client:
//
//	sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(spool.TraceIDs()), …)
//
// Ids of Spool's spans follow from turns, steps and calls, so that all processes that
// a turn runs in, whatever became of them, agree on its trace; all others are random.
// A provider without it keeps a turn in one trace, but not as one tree.
func TraceIDs() interface {
	NewIDs(context.Context) (trace.TraceID, trace.SpanID)
	NewSpanID(context.Context, trace.TraceID) trace.SpanID
} {
	return telemetry.IDs{}
}

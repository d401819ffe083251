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

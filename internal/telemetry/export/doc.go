// Package export makes the telemetry providers of the programs, as the standard
// OTEL_* environment variables say. Without them there are none.
package export

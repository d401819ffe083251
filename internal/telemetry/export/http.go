package export

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Handler reports the requests of an HTTP API that change something, in the trace
// that their traceparent names. Reading is not reported: pages poll, and streams last
// for hours.
func (e *Export) Handler(next http.Handler) http.Handler {
	if e == nil || e.Tracers == nil && e.Meters == nil {
		return next
	}
	options := []otelhttp.Option{
		otelhttp.WithTracerProvider(tracenoop.NewTracerProvider()), otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/follow")
		}),
	}
	if e.Tracers != nil {
		options = append(options, otelhttp.WithTracerProvider(e.Tracers))
	}
	if e.Meters != nil {
		options = append(options, otelhttp.WithMeterProvider(e.Meters))
	}
	return otelhttp.NewHandler(next, "http", options...)
}

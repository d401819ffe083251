package starter

import (
	"context"
	"strings"

	"github.com/spool-agents/spool/internal/telemetry/export"
)

// examineTelemetry tells whether telemetry is on and its endpoint answers. One that
// does not is nothing that a worker is unwell for: turns go on.
func examineTelemetry(ctx context.Context, env func(string) string) check {
	traces, metrics := export.Signals(env)
	c := check{Name: "telemetry", OK: true}
	var on []string
	if traces {
		on = append(on, "traces")
	}
	if metrics {
		on = append(on, "metrics")
	}
	if len(on) == 0 {
		c.Detail = "off (OTEL_EXPORTER_OTLP_ENDPOINT turns it on)"
		return c
	}
	c.Detail = strings.Join(on, " and ") + " on"
	for _, e := range export.Endpoints(env) {
		if err := e.Reach(ctx); err != nil {
			c.Detail += ", but " + e.Address + " does not answer: " + err.Error()
			c.ToDo = "start the collector, or see to OTEL_EXPORTER_OTLP_ENDPOINT; turns go on without"
			return c
		}
		c.Detail += ", " + e.Address + " answers"
	}
	return c
}

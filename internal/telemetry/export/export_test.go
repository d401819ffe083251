package export

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/spool-agents/spool/internal/telemetry"
)

func env(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }

func TestSignals(t *testing.T) {
	for _, c := range []struct {
		env             map[string]string
		traces, metrics bool
	}{
		{nil, false, false},
		{map[string]string{"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"}, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, true, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, true, false},
		{map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, false, true},
	} {
		traces, metrics := Signals(env(c.env))
		require.Equal(t, [2]bool{c.traces, c.metrics}, [2]bool{traces, metrics}, "%v", c.env)
	}
}

func TestEndpoints(t *testing.T) {
	require.Empty(t, Endpoints(env(nil)))
	for want, kv := range map[string]map[string]string{
		"c:4318":         {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"},
		"c:443":          {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/otlp"},
		"c:4317":         {"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"localhost:4318": {"OTEL_TRACES_EXPORTER": "otlp"},
	} {
		require.Equal(t, []Endpoint{{want}}, Endpoints(env(kv)), "%v", kv)
	}
	require.Empty(t, Endpoints(env(map[string]string{"OTEL_TRACES_EXPORTER": "console"})))
	server := httptest.NewServer(nil)
	e := Endpoint{server.Listener.Addr().String()}
	require.NoError(t, e.Reach(t.Context()))
	server.Close()
	require.Error(t, e.Reach(t.Context()))
}

// A ratio decides by the trace, whatever derived parent a span has; other spans
// follow their parents.
func TestSampler(t *testing.T) {
	root, err := rootSampler(env(map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}))
	require.NoError(t, err)
	p := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(telemetry.IDs{}), sdktrace.WithSampler(sampler{root, sdktrace.ParentBased(root)}))
	sender := telemetry.NewSender(p, nil)
	require.NotNil(t, sender)
	_, span := p.Tracer("x").Start(t.Context(), "other")
	require.False(t, span.SpanContext().IsSampled())
	for name, kv := range map[string]map[string]string{
		"sampler": {"OTEL_TRACES_SAMPLER": "sometimes"},
		"ratio":   {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
	} {
		_, err := rootSampler(env(kv))
		require.ErrorContains(t, err, "OTEL_TRACES_SAMPLER", name)
	}
}

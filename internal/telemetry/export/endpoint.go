package export

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Endpoint is where telemetry is sent to.
type Endpoint struct {
	// Address is host and port.
	Address string
}

// Endpoints are those of OTLP exporters that the environment names, each once, that of
// traces first.
func Endpoints(env func(string) string) []Endpoint {
	var out []Endpoint
	traces, metrics := Signals(env)
	for _, s := range []struct {
		signal string
		on     bool
	}{{"TRACES", traces}, {"METRICS", metrics}} {
		signal := s.signal
		if exporter := env("OTEL_" + signal + "_EXPORTER"); !s.on || exporter != "" && exporter != "otlp" {
			continue
		}
		grpc := cmp.Or(env("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL")) == "grpc"
		e := Endpoint{address(cmp.Or(env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT")), grpc)}
		if len(out) == 0 || out[0] != e {
			out = append(out, e)
		}
	}
	return out
}

// address is host and port of an endpoint, with the ports of OTLP and of URLs where it
// names none.
func address(endpoint string, grpc bool) string {
	if endpoint == "" {
		if grpc {
			return "localhost:4317"
		}
		return "localhost:4318"
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" {
		return "(an endpoint that is no URL)"
	}
	port := u.Port()
	switch {
	case port != "":
	case grpc:
		port = "4317"
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Reach says why nobody listens there; nil if somebody does.
func (e Endpoint) Reach(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", e.Address)
	if err != nil {
		return err
	}
	return conn.Close()
}

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

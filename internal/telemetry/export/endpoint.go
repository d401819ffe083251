package export

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"strings"
	"time"
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

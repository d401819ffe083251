package e2e

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// collector receives telemetry over OTLP/HTTP, as a collector of OpenTelemetry does.
type collector struct {
	t  testing.TB
	at string

	mu      sync.Mutex
	spans   []received
	metrics map[string][]*metricspb.Metric
	raw     [][]byte
	hanging chan struct{} // closed when requests are let go; nil if they are answered
}

// received is a span as it was received.
type received struct {
	*tracepb.Span
	Service string
}

// startCollector starts a collector for a test.
func startCollector(t testing.TB) *collector {
	c := &collector{t: t, metrics: map[string][]*metricspb.Metric{}}
	server := httptest.NewServer(c)
	c.at = server.URL
	t.Cleanup(func() {
		c.release()
		server.Close()
	})
	return c
}

// Hang makes it answer nothing until the test ends.
func (c *collector) Hang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hanging = make(chan struct{})
}

func (c *collector) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hanging != nil {
		close(c.hanging)
		c.hanging = nil
	}
}

// Env sends a program's telemetry here.
func (c *collector) Env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.at, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=300"}
}

// ServeHTTP takes a request of an exporter.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	hanging := c.hanging
	c.mu.Unlock()
	if hanging != nil {
		<-hanging
		return
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	data, err := io.ReadAll(body)
	if err == nil {
		err = c.take(r.URL.Path, data)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *collector) take(path string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, data)
	switch path {
	case "/v1/traces":
		var in collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(data, &in); err != nil {
			return err
		}
		for _, r := range in.GetResourceSpans() {
			for _, s := range r.GetScopeSpans() {
				for _, one := range s.GetSpans() {
					c.spans = append(c.spans, received{one, attribute(r.GetResource().GetAttributes(), "service.name")})
				}
			}
		}
	case "/v1/metrics":
		var in collectormetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(data, &in); err != nil {
			return err
		}
		for _, r := range in.GetResourceMetrics() {
			for _, s := range r.GetScopeMetrics() {
				for _, m := range s.GetMetrics() {
					c.metrics[m.GetName()] = append(c.metrics[m.GetName()], m)
				}
			}
		}
	default:
		return fmt.Errorf("no such path: %s", path)
	}
	return nil
}

// Spans are those of a trace, or all, in the order of their begin.
func (c *collector) Spans(traceID string) []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []received
	for _, s := range c.spans {
		if traceID == "" || hex.EncodeToString(s.TraceId) == traceID {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b received) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return out
}

// Await waits until a span of the trace has this name.
func (c *collector) Await(traceID, name string) {
	c.t.Helper()
	tt.Eventually(c.t, "the span "+name+" arrives", func() bool {
		return slices.ContainsFunc(c.Spans(traceID), func(s received) bool { return s.Name == name })
	})
}

// Metric is what arrived under a name.
func (c *collector) Metric(name string) []*metricspb.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.metrics[name])
}

// Metrics are the names of all metrics that arrived.
func (c *collector) Metrics() map[string][]*metricspb.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string][]*metricspb.Metric{}
	for name, m := range c.metrics {
		out[name] = slices.Clone(m)
	}
	return out
}

// Raw is every byte that arrived.
func (c *collector) Raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, r := range c.raw {
		b.Write(r)
	}
	return b.String()
}

// Attr is an attribute of the span as text, "" if it has none of that name.
func (s received) Attr(key string) string { return attribute(s.Attributes, key) }

func attribute(kv []*commonpb.KeyValue, key string) string {
	for _, a := range kv {
		if a.GetKey() != key {
			continue
		}
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		default:
			return a.GetValue().String()
		}
	}
	return ""
}

// Tree draws a trace: each span below its parent, siblings in the order of their
// names, with the attributes that keys name. What has a parent that is not there
// stands at the margin after "?".
func (c *collector) Tree(traceID string, keys ...string) string {
	spans := c.Spans(traceID)
	children, known := map[string][]received{}, map[string]bool{}
	for _, s := range spans {
		known[string(s.SpanId)] = true
	}
	var b strings.Builder
	label := func(s received) string {
		text := s.Name
		for _, k := range keys {
			if v := s.Attr(k); v != "" {
				text += " " + k[strings.LastIndexByte(k, '.')+1:] + "=" + v
			}
		}
		return text
	}
	var roots []received
	for _, s := range spans {
		switch {
		case len(s.ParentSpanId) == 0 || !known[string(s.ParentSpanId)]:
			roots = append(roots, s)
		default:
			children[string(s.ParentSpanId)] = append(children[string(s.ParentSpanId)], s)
		}
	}
	var draw func(s received, indent string)
	draw = func(s received, indent string) {
		mark := ""
		if len(s.ParentSpanId) > 0 && !known[string(s.ParentSpanId)] {
			mark = "? "
		}
		b.WriteString(indent + mark + label(s) + "\n")
		below := children[string(s.SpanId)]
		slices.SortStableFunc(below, func(a, b received) int { return strings.Compare(label(a), label(b)) })
		for _, child := range below {
			draw(child, indent+"  ")
		}
	}
	for _, s := range roots {
		draw(s, "")
	}
	return b.String()
}

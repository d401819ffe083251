// Package export makes the telemetry providers of the programs, as the standard
// OTEL_* environment variables say. Without them there are none.
package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/telemetry"
)

// contentEnv asks for contents in spans, as in the semantic conventions.
const contentEnv = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// flushWithin bounds how long a program waits at its end for an exporter.
const flushWithin = 2 * time.Second

// Export is a program's providers; those that are off are nil. The zero value is off.
type Export struct {
	Tracers trace.TracerProvider
	Meters  metric.MeterProvider
	// Content says that spans may hold what was said.
	Content bool
	// Scrape answers with all metrics in Prometheus's text; nil if they are not scraped.
	Scrape http.Handler

	shutdown []func(context.Context) error
}

// Signals says which signals the environment asks for: those with an exporter, or an
// endpoint. OpenTelemetry's own default is to send all to localhost; a program that
// people install for themselves does not.
func Signals(env func(string) string) (traces, metrics bool) {
	if off, err := strconv.ParseBool(env("OTEL_SDK_DISABLED")); err == nil && off {
		return false, false
	}
	wanted := func(signal string) bool {
		if exporter := env("OTEL_" + signal + "_EXPORTER"); exporter != "" {
			return exporter != "none"
		}
		return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
	return wanted("TRACES"), wanted("METRICS")
}

// Options say which program it is.
type Options struct {
	// Service is what it is called unless OTEL_SERVICE_NAME says otherwise.
	Service string
	// Lasting is false of a program that ends soon: it has no metrics to tell.
	Lasting bool
	// Scraped makes Scrape, whatever the environment asks for.
	Scraped bool
}

// Start makes the providers that the environment of this process asks for. What
// exporters complain of is logged once in a while. Close flushes.
func Start(ctx context.Context, o Options, log *slog.Logger) (*Export, error) {
	traces, metrics := Signals(os.Getenv)
	e := &Export{Content: slices.Contains([]string{"TRUE", "SPAN_ONLY", "SPAN_AND_EVENT"}, strings.ToUpper(os.Getenv(contentEnv)))}
	if metrics = metrics && o.Lasting; !traces && !metrics && !o.Scraped {
		return e, nil
	}
	otel.SetErrorHandler(&complaints{log: log})
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", o.Service)), resource.WithTelemetrySDK(),
		resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return e, wrong(err)
	}
	if traces {
		err = e.traces(ctx, about)
	}
	if err == nil && (metrics || o.Scraped) {
		err = e.metrics(ctx, about, metrics, o.Scraped)
	}
	if err != nil {
		e.Close()
		return &Export{}, wrong(err)
	}
	return e, nil
}

// wrong names what may be wrong: the library's errors do not.
func wrong(err error) error {
	var set []string
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
		"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_METRICS_PRODUCERS", "OTEL_RESOURCE_ATTRIBUTES"} {
		if v := os.Getenv(name); v != "" {
			set = append(set, name+"="+v)
		}
	}
	return agent.Wrap(err, agent.CodeInvalid, "the environment's settings of OpenTelemetry are not usable (%s); docs/telemetry.md says what is, OTEL_SDK_DISABLED=true turns it off",
		strings.Join(set, ", "))
}

func (e *Export) traces(ctx context.Context, about *resource.Resource) error {
	root, err := rootSampler(os.Getenv)
	if err != nil {
		return err
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	var batch []sdktrace.BatchSpanProcessorOption
	if os.Getenv("OTEL_BSP_SCHEDULE_DELAY") == "" {
		// A worker that is killed takes along what it has not sent. The default, 5 s, is
		// ten times as much of it.
		batch = append(batch, sdktrace.WithBatchTimeout(500*time.Millisecond))
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, batch...), sdktrace.WithResource(about),
		sdktrace.WithIDGenerator(telemetry.IDs{}), sdktrace.WithSampler(sampler{root, sdktrace.ParentBased(root)}))
	e.Tracers, e.shutdown = p, append(e.shutdown, p.Shutdown)
	return nil
}

func (e *Export) metrics(ctx context.Context, about *resource.Resource, sent, scraped bool) error {
	o := []sdkmetric.Option{sdkmetric.WithResource(about)}
	if sent {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return err
		}
		o = append(o, sdkmetric.WithReader(reader))
	}
	if scraped {
		registry := prometheus.NewRegistry()
		reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
		if err != nil {
			return err
		}
		o = append(o, sdkmetric.WithReader(reader))
		e.Scrape = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	}
	p := sdkmetric.NewMeterProvider(o...)
	e.Meters, e.shutdown = p, append(e.shutdown, p.Shutdown)
	return nil
}

// Temporal hands the SDK's own metrics on; nil if there are no metrics.
func (e *Export) Temporal() client.MetricsHandler {
	if e == nil || e.Meters == nil {
		return nil
	}
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: e.Meters.Meter("temporal-sdk-go"), UseMonotonicCounters: true, OnError: func(err error) { otel.Handle(err) },
	})
}

// Close sends what is left and ends the providers, after flushWithin at the latest.
// Calling it again does nothing.
func (e *Export) Close() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
	defer cancel()
	done := make(chan struct{})
	shutdown := e.shutdown
	e.shutdown = nil
	go func() {
		defer close(done)
		for _, f := range shutdown {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				otel.Handle(err)
			}
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// complainEvery is how often failing exporters are logged.
const complainEvery = time.Minute

// complaints logs errors of exporters: the first, and one a minute. A collector that
// is down for a night must not fill the disk.
type complaints struct {
	log  *slog.Logger
	mu   sync.Mutex
	next time.Time
	left int
}

func (c *complaints) Handle(err error) {
	if errors.Is(err, context.Canceled) {
		return // the program ends, and sends again what this was
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		c.left++
		return
	}
	c.log.Warn("telemetry is not delivered; turns go on", "error", err, "more", c.left)
	c.next, c.left = now.Add(complainEvery), 0
}

// sampler decides about Spool's spans by root, whatever their parents: those are
// derived and not sampled anywhere. As the trace id is the same everywhere, so is
// the decision. All other spans follow their parents.
type sampler struct{ root, other sdktrace.Sampler }

func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if telemetry.Derived(p.ParentContext) {
		return s.root.ShouldSample(p)
	}
	return s.other.ShouldSample(p)
}

func (s sampler) Description() string { return "Spool{" + s.root.Description() + "}" }

// rootSampler is that of OTEL_TRACES_SAMPLER, without its rule about parents.
func rootSampler(env func(string) string) (sdktrace.Sampler, error) {
	name := strings.TrimPrefix(env("OTEL_TRACES_SAMPLER"), "parentbased_")
	switch name {
	case "", "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		ratio := 1.0
		if arg := env("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || ratio < 0 || ratio > 1 {
				return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG %q is not valid: use a number from 0 to 1", arg)
			}
		}
		return sdktrace.TraceIDRatioBased(ratio), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER %q is not valid: use always_on, always_off or traceidratio, or one of these after parentbased_", env("OTEL_TRACES_SAMPLER"))
}

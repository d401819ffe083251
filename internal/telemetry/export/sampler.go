package export

import (
	"fmt"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/spool-agents/spool/internal/telemetry"
)

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

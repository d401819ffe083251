package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

func TestACancelledActivityIsNoError(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		err     any
		want    bool
	}{
		"cancelled":                 {"Activity error.", context.Canceled, false},
		"cancelled somewhere below": {"Activity error.", fmt.Errorf("read: %w", context.Canceled), false},
		"cancelled by the server":   {"Activity error.", temporal.NewCanceledError(), false},
		"told as text":              {"Activity error.", "run tool: context canceled", false},
		"a real one":                {"Activity error.", errors.New("disk full"), true},
		"something else":            {"Failed to poll.", context.Canceled, true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := sdklog.NewStructuredLogger(quiet(slog.New(slog.NewTextHandler(&out, nil))))
			sdklog.With(log, "Namespace", "default").Error(c.message, "ActivityType", "RunTool", "Error", c.err)
			assert.Equal(t, c.want, out.Len() > 0, out.String())
		})
	}
}

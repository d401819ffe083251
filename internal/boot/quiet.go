package boot

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"go.temporal.io/sdk/temporal"
)

// quiet keeps the SDK's routine messages out of the log: only warnings and errors,
// and of those not that an activity ended because its turn was cancelled.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(levelled{log.Handler()}) }

type levelled struct{ slog.Handler }

func (h levelled) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

// Handle passes a record on, a cancelled activity as a detail.
func (h levelled) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "Activity error." && tellsOfCancel(r) {
		if r.Level = slog.LevelDebug; !h.Handler.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelled{h.Handler.WithAttrs(attrs)}
}

func (h levelled) WithGroup(name string) slog.Handler { return levelled{h.Handler.WithGroup(name)} }

func tellsOfCancel(r slog.Record) (cancelled bool) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "Error" {
			return true
		}
		err, ok := a.Value.Any().(error)
		cancelled = ok && (errors.Is(err, context.Canceled) || temporal.IsCanceledError(err)) || strings.Contains(a.Value.String(), context.Canceled.Error())
		return false
	})
	return cancelled
}

package export

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

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

// Handle implements otel.ErrorHandler.
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

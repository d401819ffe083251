package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However many windows of a browser ask for a stream at once, one of them waits for a
// place and the others are told at once, so that three streams and a wait are all
// that they hold of the browser's connections.
func TestOneWindowWaitsForAStream(t *testing.T) {
	l := newLimiter(Limits{})
	var ends []func()
	for range browserStreams {
		done, ok := l.browser(t.Context(), "b", 0)
		require.True(t, ok)
		ends = append(ends, done)
	}
	got := make(chan bool, 1)
	go func() {
		_, ok := l.browser(t.Context(), "b", time.Hour)
		got <- ok
	}()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		waits = l.streams["waiting b"] == 1
		l.mu.Unlock()
	}
	for range 4 { // an hour each, if they waited
		_, ok := l.browser(t.Context(), "b", time.Hour)
		require.False(t, ok)
	}
	_, ok := l.browser(t.Context(), "another browser", 0)
	require.True(t, ok)
	ends[0]()
	require.True(t, <-got, "the one that waited has the place")
}

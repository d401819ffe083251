package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// One refusal for a day locks nobody out: other models are asked as before, and the one
// that was refused is asked again by whoever wants something of it a while later.
func TestFault_A11_ALongRetryAfterIsProbed(t *testing.T) {
	t.Parallel()
	const interval = 8 * time.Second
	s := tt.New(t)
	var calls atomic.Int32
	once := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 1 {
			s.Model.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "99999")
		http.Error(w, `{"error":{"message":"slow down"}}`, http.StatusTooManyRequests)
	}))
	defer once.Close()
	s.StartWorker("SPOOL_PROBE_INTERVAL="+interval.String(), "OPENAI_BASE_URL="+once.URL+"/v1")
	refused := s.Ask("s1", "script: say recovered")
	asked := time.Now()
	require.Equal(t, []string{"failed", agent.ModelRateLimited}, []string{refused.Status, refused.ErrorCode})
	require.Contains(t, refused.Error, "fake at ")
	require.Contains(t, refused.Error, "(HTTP 429)")

	_, told, code := starterApart(t, s, "send", "-s", s.Session("s2"), "script: say now")
	held := time.Since(asked) < interval
	if held { // else this machine is too slow to see it
		require.NotZero(t, code)
		require.NotContains(t, told, "HTTP 429)", "it was not asked")
		tomorrow := asked.Add(99999 * time.Second).Local().Format(time.DateOnly)
		require.Regexp(t, `not asked: fake at \S+ said at [0-9:]{8} to wait until `+tomorrow+` [0-9:]{8}: .*; one call a minute is let through`, told, "in local time, the provider's own")
		require.EqualValues(t, 1, calls.Load())
	}
	out, told, code := starterApart(t, s, "send", "-s", s.Session("s3"), "--model", "other", "script: say another")
	require.Equal(t, []any{"another\n", 0}, []any{out, code}, told)

	time.Sleep(time.Until(asked.Add(interval)))
	out, told, code = starterApart(t, s, "retry", refused.ThreadID)
	require.Equal(t, 0, code, told)
	require.Contains(t, out, "recovered")
	if held {
		out, told, code = starterApart(t, s, "retry", s.Thread("s2"))
		require.Equal(t, 0, code, told)
		require.Contains(t, out, "now")
	}
	require.Equal(t, "at once", s.Ask("s4", "script: say at once").Response)
	s.Verify()
}

// A call that fails says what becomes of it in the end: with another model to take
// over, it is not given up.
func TestFault_A11_AWaitTellsWhoTakesOver(t *testing.T) {
	t.Parallel()
	s := tt.New(t)
	s.StartWorker("SPOOL_FALLBACK_MODELS=second")
	r := s.Ask("s1", "script: fail 503 x2 say answered")
	require.Equal(t, "answered", r.Response)
	waits := toldWaits(t, s, r.ThreadID)
	require.Len(t, waits, 2)
	for i, w := range waits {
		text := w.Text(time.Now())
		require.Contains(t, text, "; goes on with second at ")
		require.False(t, strings.Contains(text, "gives up"))
		require.Equal(t, i+2, w.Attempt)
	}
	s.Verify()
}

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

// One refusal for a day locks no other model out.
func TestFault_A11_ALongRetryAfterIsOfItsModel(t *testing.T) {
	t.Parallel()
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
	s.StartWorker("OPENAI_BASE_URL=" + once.URL + "/v1")
	refused := s.Ask("s1", "script: say never")
	asked := time.Now()
	require.Equal(t, []string{"failed", agent.ModelRateLimited}, []string{refused.Status, refused.ErrorCode})
	require.Contains(t, refused.Error, "fake at ")
	require.Contains(t, refused.Error, "(HTTP 429)")

	_, told, code := starterApart(t, s, "send", "-s", s.Session("s2"), "script: say now")
	require.NotZero(t, code)
	require.NotContains(t, told, "HTTP 429)", "it was not asked")
	tomorrow := asked.Add(99999 * time.Second).Local().Format(time.DateOnly)
	require.Regexp(t, `not asked: fake at \S+ said at [0-9:]{8} to wait until `+tomorrow+` [0-9:]{8}: `, told, "in local time, the provider's own")
	require.EqualValues(t, 1, calls.Load())
	out, told, code := starterApart(t, s, "send", "-s", s.Session("s3"), "--model", "other", "script: say another")
	require.Equal(t, []any{"another\n", 0}, []any{out, code}, told)
	s.Verify()
}

// A call that fails says what becomes of it in the end: with another model to take
// over, it is not given up.
func TestFault_A11_AWaitTellsWhoTakesOver(t *testing.T) {
	s := begin(t, "SPOOL_FALLBACK_MODELS=second")
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
}

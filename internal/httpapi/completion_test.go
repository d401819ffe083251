package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// A client that leaves in mid-stream loses nothing: the turn goes on, and the same
// request with its key gets the whole answer.
func TestACompletionOutlivesItsReader(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	ask := map[string]any{"model": "orchestrator", "stream": true, "messages": []any{map[string]any{"role": "user", "content": "script: slow 50ms say " + strings.Repeat("word ", 40) + "end"}}}
	r := b.request(http.MethodPost, "/v1/chat/completions", ask)
	r.Header.Set("Idempotency-Key", "left")
	res, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	part := make([]byte, 1500)
	n, err := res.Body.Read(part)
	require.NoError(t, err)
	require.NotZero(t, n)
	res.Body.Close()
	thread := res.Header.Get("X-Spool-Thread")
	tt.Eventually(t, 30*time.Second, "the turn ends without its reader", func() bool {
		th, err := b.Store.Thread(b.Ctx(), "tester", thread)
		return err == nil && th.Status == agent.ThreadCompleted
	})
	ask["stream"] = false
	r = b.request(http.MethodPost, "/v1/chat/completions", ask)
	r.Header.Set("Idempotency-Key", "left")
	var out struct {
		Choices []struct{ Message struct{ Content string } }
	}
	b.send(r).is(200).into(&out)
	require.True(t, strings.HasSuffix(out.Choices[0].Message.Content, "word end"))
	b.Verify()
}

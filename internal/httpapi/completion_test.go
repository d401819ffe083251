package httpapi_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

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
	tt.Eventually(t, "the turn ends without its reader", func() bool {
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

// While the model's provider has a turn wait, the stream says so, at once and then again
// and again, so that nobody on the way takes it for dead. To a client these are
// comments.
func TestACompletionTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	ask := map[string]any{"model": "orchestrator", "stream": true, "messages": []any{map[string]any{"role": "user", "content": "script: fail 429 x1 after 17s say recovered"}}}
	begin := func() (*bufio.Scanner, string) {
		r := b.request(http.MethodPost, "/v1/chat/completions", ask)
		r.Header.Set("Idempotency-Key", "waits")
		res, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return bufio.NewScanner(res.Body), res.Header.Get("X-Spool-Thread")
	}
	lines, thread := begin()
	var waits, text []string
	for lines.Scan() {
		line := lines.Text()
		if comment, ok := strings.CutPrefix(line, ": "); ok {
			waits = append(waits, comment)
			if len(waits) == 1 { // who comes back with its key is told, too
				again, same := begin()
				require.Equal(t, thread, same)
				for again.Scan() && !strings.HasPrefix(again.Text(), ": ") {
				}
				require.Contains(t, again.Text(), ": waiting until ")
			}
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &chunk) == nil {
			text = append(text, chunk.Choices[0].Delta.Content)
		}
	}
	require.Equal(t, "recovered", strings.Join(text, ""))
	require.Len(t, waits, 2, "when it began, and the heartbeat: %q", waits)
	for _, w := range waits {
		require.Regexp(t, `^waiting until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: waiting for the provider until [0-9 :-]+ \(rate limited: `, w)
	}
	b.Verify()
}

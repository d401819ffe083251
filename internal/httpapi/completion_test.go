package httpapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/npmtest"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// OpenAI's own client, from the npm registry, works against a server: models,
// conversations, streams, repeated requests, questions, errors.
func TestTheOpenAIClientWorks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.asks()
	b.StartWorker()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(npmtest.Install(t, os.DirFS("testdata/openai")), "node_modules"), filepath.Join(dir, "node_modules")))
	program, err := os.ReadFile("testdata/openai/client.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client.mjs"), program, 0o600))
	session := b.Session("oa")
	cmd := exec.CommandContext(t.Context(), "node", "client.mjs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BASE_URL="+b.url+"/v1", "TOKEN="+token, "SESSION="+session)
	var errout strings.Builder
	cmd.Stderr = &errout
	out, err := cmd.Output()
	require.NoError(t, err, errout.String())
	var seen struct {
		Models               []string
		Model, First, Finish string
		Usage                bool
		Second               string
		Streamed             map[string]any
		Once                 []any
		Again, WholeThread   string
		Fitting              map[string]any
		Question, Answered   string
		Errors               map[string][]any
	}
	require.NoError(t, json.Unmarshal(out, &seen), "%s", out)
	require.Equal(t, []string{"orchestrator", "general", "researcher"}, seen.Models)
	require.Equal(t, "general", seen.Model)
	require.Contains(t, seen.First, "42")
	require.Equal(t, "stop", seen.Finish)
	require.True(t, seen.Usage)
	require.Equal(t, "second", seen.Second)
	require.Equal(t, map[string]any{"text": "one two three four five six seven eight nine ten", "many": true, "usage": true, "finish": "stop"}, seen.Streamed)
	require.Equal(t, []any{"once", "once", true, true}, seen.Once)
	require.Equal(t, "once", seen.Again)
	require.Equal(t, map[string]any{"n": 42.0}, seen.Fitting)
	require.Equal(t, "Which one?", seen.Question)
	require.Contains(t, seen.Answered, "the blue one")
	require.Equal(t, map[string][]any{
		"model":    {"NotFoundError", 404.0, "model_not_found"},
		"tools":    {"BadRequestError", 400.0, "invalid"},
		"token":    {"AuthenticationError", 401.0, "unauthorized"},
		"approval": {"ConflictError", 409.0, "waiting_for_approval"},
		"streamed": {"APIError", nil, "waiting_for_approval"},
	}, seen.Errors)

	texts := func(thread string) (out []string) {
		m, err := b.Store.Messages(b.Ctx(), thread, 0, 0)
		require.NoError(t, err)
		for _, x := range m {
			if x.Role == agent.RoleUser {
				out = append(out, x.Content.String())
			}
		}
		return out
	}
	require.Len(t, texts(session+"/default"), 3, "each message once, and no history twice")
	whole := texts(seen.WholeThread)
	require.Len(t, whole, 1)
	for _, part := range []string{"system:\nBe brief.", "user:\nearlier", "assistant:\n" + seen.First, "And now?"} {
		require.Contains(t, whole[0], part)
	}
	require.Empty(t, b.File("gated"), "what waits for approval has not run")
	gated, err := b.Store.TurnsOf(b.Ctx(), session+"/gated")
	require.NoError(t, err)
	require.Len(t, gated, 1, "the client did not send it again")
}

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

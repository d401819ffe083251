package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// What a person types and sees: `send --schema FILE` prints the JSON, and a wrong
// schema is refused before anything is stored.
func TestSendWithASchema(t *testing.T) {
	s := begin(t)
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json")
	require.NoError(t, os.WriteFile(good, []byte(form), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte(`{"type":"thing"}`), 0o600))
	out, progress, code := starterApart(t, s, "send", "-s", s.Session("s1"), "--schema", good, "--json", script.Script(`say {"town":"Oslo"}`, `say {"city":"Oslo"}`))
	require.Zero(t, code, progress)
	var r spool.Reply
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, `{"city":"Oslo"}`, r.Response)
	_, progress, code = starterApart(t, s, "send", "-s", s.Session("s2"), "--schema", bad, "x")
	require.Equal(t, 2, code, progress)
	require.Contains(t, progress, "schema")
	_, progress, code = starterApart(t, s, "send", "-s", s.Session("s2"), "--schema", filepath.Join(dir, "none.json"), "x")
	require.Equal(t, 2, code, progress)
	out = says(t, s, 1, "send", "-s", s.Session("s1"), "--schema", good, `script: say never ;; say fits`)
	require.Contains(t, out, agent.ModelAnswerInvalid)
}

// A person is told on stderr when the conversation is summarised, when another model
// takes over, and when a server reads only a part.
func TestSendTellsWhatHappensToTheContext(t *testing.T) {
	s := stack(t)
	s.Model.Window = 12000
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000", "SPOOL_FALLBACK_MODELS=second")
	steps := pages(t, s, 8, 6000)
	_, progress, code := starterApart(t, s, "send", "-s", s.Session("s1"), script.Script(steps, "fail 404 say the end"))
	require.Zero(t, code, progress)
	require.Contains(t, progress, "were summarised to fit the model; nothing was deleted")
	require.Contains(t, progress, "second goes on in place of fake")
}

// Where a provider does not say what a call used, our count stands for it, and is
// marked as one.
func TestUsageIsEstimatedWhereTheProviderIsSilent(t *testing.T) {
	s := stack(t)
	s.Model.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		_, _ = fmt.Fprint(w, `{"choices":[{"message":{"content":"some words of an answer"},"finish_reason":"stop"}]}`)
	})
	s.StartWorker("SPOOL_PRICE_INPUT=10", "SPOOL_PRICE_OUTPUT=10")
	r := s.Ask("s1", "hello")
	require.Equal(t, "some words of an answer", r.Response, r.Error)
	use := messages(t, s, r.ThreadID)[1].Usage
	require.True(t, use.Estimated)
	require.Greater(t, use.PromptTokens, int64(500))
	require.InDelta(t, 9, use.CompletionTokens, 4)
	require.Positive(t, use.Price)
	// Answers that are refused were paid for, too.
	m := s.Message("s2", "hello")
	m.AnswerSchema = json.RawMessage(`{"type":"object"}`)
	sent := send(t, s, m)
	refused := s.Wait(sent)
	require.Equal(t, agent.ModelAnswerInvalid, refused.ErrorCode)
	require.Greater(t, thread(t, s, refused.ThreadID).TotalTokens, 2*use.TotalTokens-100)
	require.Greater(t, thread(t, s, refused.ThreadID).TotalPrice, 1.5*use.Price)
}

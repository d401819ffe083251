package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// A model that its provider does not know, and one that fails for as long as calls
// are repeated: the next one takes over for the rest of the turn, visibly, and the
// conversation stays valid.
func TestFallbackModels(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]string{"not found": "fail 404 x1", "fails for long": "fail 503 x6 after 1ms"} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, "SPOOL_FALLBACK_MODELS=second,third", "SPOOL_RETRY_FOR=50ms")
			r := s.Ask("s1", script.Script(add(1, 2), failing+" "+add(3, 4), "say done"))
			require.Equal(t, "done", r.Response, r.Error)
			require.Equal(t, []string{agent.WarnFallback}, warnings(t, s, r.ThreadID))
			var models []string
			for _, q := range s.Model.Records() {
				if q.Status == 200 {
					models = append(models, q.Model)
				}
			}
			require.Equal(t, []string{"fake", "second", "second"}, models)
			require.Equal(t, "second", turns(t, s, r.ThreadID)[0].Fallback)
			require.EqualValues(t, len(s.Model.Records()), thread(t, s, r.ThreadID).RequestCount, "failed attempts are counted, too")
			require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
			all := s.Model.Records()
			require.Equal(t, "fake", all[len(all)-1].Model, "the next turn tries the thread's own model first")
		})
	}
}

// A conversation goes on at another provider in the middle of a turn: what it is
// sent is what it accepts, and it is asked with its own key.
func TestProviderChangesMidTurn(t *testing.T) {
	s := stack(t)
	other := llmtest.Run(t)
	other.KeepBodies = true
	models(t, s, "providers:\n  other: {baseUrl: '"+other.URL()+"', apiKeyEnv: OTHER_KEY}\n")
	s.StartWorker("SPOOL_FALLBACK_MODELS=gone@other,mistral-small@other", "OTHER_KEY=other-secret")
	r := s.Ask("s1", script.Script("think hard about it => "+add(1, 2), "fail 404 "+add(3, 4), "say done"))
	require.Equal(t, "done", r.Response, r.Error)
	require.Empty(t, other.Violations())
	require.Len(t, other.Records(), 3, "it knows the second of its models only")
	require.Equal(t, []string{agent.WarnFallback, agent.WarnFallback}, warnings(t, s, r.ThreadID))
	var q struct {
		Model    string
		Messages []agent.Message
	}
	require.NoError(t, json.Unmarshal(other.Records()[2].Body, &q))
	require.Equal(t, "mistral-small", q.Model)
	require.Regexp(t, `^[A-Za-z0-9]{9}$`, q.Messages[2].ToolCalls[0].ID)
	require.Equal(t, q.Messages[2].ToolCalls[0].ID, q.Messages[3].ToolCallID)
}

// A fallback that names no provider is asked at the one of the settings, also where
// the agent's own model is asked elsewhere; a mistyped provider is skipped, and an
// agent whose provider is not set up fails with what to do.
func TestFallbackOfAnAgentWithAProvider(t *testing.T) {
	s := stack(t)
	other := llmtest.Run(t)
	other.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":{"message":"no such model"}}`))
	})
	models(t, s, "providers:\n  other: {baseUrl: '"+other.URL()+"'}\n")
	template(t, s, "orchestrator", "provider: other\nmodel: second\n", "x")
	s.StartWorker("SPOOL_FALLBACK_MODELS=x@othr,second")
	r := s.Ask("s1", "script: say done")
	require.Equal(t, "done", r.Response, r.Error)
	require.Equal(t, "second", s.Model.Records()[0].Model)
	require.Len(t, other.Records(), 1)
	template(t, s, "orchestrator", "model: m@othr\n", "x")
	r = s.Ask("s2", "script: say done again")
	require.Equal(t, "done again", r.Response, "the fallback answers: %s", r.Error)
	require.Contains(t, strings.Join(warnings(t, s, r.ThreadID), " "), agent.WarnFallback)
}

// Row 5: model and provider are one pair. A sub-agent whose template names neither is
// asked where its parent is, also after send --model; one that names a model without
// a provider is asked at the provider of the settings.
func TestRow05_ModelAndProviderAreOnePair(t *testing.T) {
	s := stack(t)
	other := llmtest.Run(t)
	models(t, s, "providers:\n  other: {baseUrl: '"+other.URL()+"'}\n")
	template(t, s, "plain", "", "You do what you are told.")
	template(t, s, "own", "model: own-model\n", "You do what you are told.")
	s.StartWorker()
	said := func(of *llmtest.Server) (models []string) {
		for _, q := range of.Records() {
			models = append(models, q.Model)
		}
		of.Reset()
		return models
	}
	ask := func(session, agent, model string) spool.Reply {
		m := s.Message(session, script.Script(script.Call("assign_task", map[string]any{"agent": agent, "task": "script: say here"}), "say done"))
		m.Model = model
		return s.Wait(send(t, s, m))
	}
	r := ask("s1", "plain", "big@other")
	require.Equal(t, "done", r.Response, r.Error)
	require.Equal(t, []string{"big", "big", "big"}, said(other), "the parent's two calls, and the sub-agent's between them")
	require.Empty(t, said(s.Model))
	r = ask("s2", "own", "big@other")
	require.Equal(t, "done", r.Response, r.Error)
	require.Equal(t, []string{"own-model"}, said(s.Model))
	require.Equal(t, []string{"big", "big"}, said(other))
	r = ask("s3", "plain", "")
	require.Equal(t, "done", r.Response, r.Error)
	require.Equal(t, []string{"fake", "fake", "fake"}, said(s.Model))
}

// form is a schema that answers of the scripted model can fit or not.
const form = `{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}`

func sendForm(t *testing.T, s *tt.Stack, text string) spool.Reply {
	t.Helper()
	m := s.Message("s1", text)
	m.AnswerSchema = json.RawMessage(form)
	r := send(t, s, m)
	return s.Wait(r)
}

// An answer that fits the schema is the response, without a code fence around it;
// the model was told of the schema.
func TestAnswerSchema(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	r := sendForm(t, s, script.Script(add(1, 2), "say ```json\\n{\"city\":\"Oslo\"}\\n```"))
	require.Equal(t, `{"city":"Oslo"}`, r.Response, r.Error)
	require.Contains(t, string(s.Model.Records()[0].Body), `one JSON value that fits this JSON schema`)
	require.Equal(t, "free text", s.Ask("s1", "script: say free text").Response, "the schema was that message's")
}

// One that does not fit is repaired once, the model being told what is wrong; then
// the turn fails with a typed error, and a retry asks for the same.
func TestAnswerSchemaRepairedOnce(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	good := sendForm(t, s, script.Script(`say {"town":"Oslo"}`, `say {"city":"Oslo"}`))
	require.Equal(t, `{"city":"Oslo"}`, good.Response, good.Error)
	require.Len(t, s.Model.Records(), 2)
	require.Equal(t, "user assistant", roles(messages(t, s, good.ThreadID)))
	s.Model.Reset()
	r := sendForm(t, s, script.Script(`say {"town":"Oslo"}`, `say {"town":"Rome"}`, `say {"city":"never"}`))
	require.Equal(t, string(agent.ThreadFailed), r.Status)
	require.Equal(t, agent.ModelAnswerInvalid, r.ErrorCode)
	require.Contains(t, r.Error, "missing property 'city'")
	require.Len(t, s.Model.Records(), 2)
	var q struct{ Messages []agent.Message }
	require.NoError(t, json.Unmarshal(s.Model.Records()[1].Body, &q))
	told := q.Messages[len(q.Messages)-1].Content.String()
	require.Contains(t, told, "missing property 'city'")
	require.Contains(t, told, `{"town":"Oslo"}`)
	require.EqualValues(t, 4, thread(t, s, r.ThreadID).RequestCount)

	again := retry(t, s, r, "again")
	require.Equal(t, agent.ModelAnswerInvalid, s.Wait(again).ErrorCode)
	require.Len(t, s.Model.Records(), 4)
	require.Len(t, messages(t, s, r.ThreadID), 2+1+2, "the user's message once, and what was said in each turn")

	m := s.Message("s1", "x")
	m.AnswerSchema = json.RawMessage(`{"type":"thing"}`)
	_, err := s.Client.Send(s.Ctx(), m)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	m.AnswerSchema, m.WhenBusy = json.RawMessage(form), memory.Steer
	_, err = s.Client.Send(s.Ctx(), m)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

// E10 and row 32: usage and price per message, thread and tree, failed attempts and
// children included, from a table that the user edits.
func TestPriceOfMessageThreadAndTree(t *testing.T) {
	s := stack(t)
	models(t, s, "models:\n  - {match: fake, price: {input: 1000, output: 2000}}\n")
	s.StartWorker()
	r := s.Ask("s1", script.Script(add(1, 2), "break x2 "+script.Task("general", script.Script(add(3, 4), "fail 503 after 1ms say child")), "say "+strings.Repeat("word ", 50)))
	require.Equal(t, string(agent.ThreadCompleted), r.Status, r.Error)
	cost := func(u agent.Usage) float64 { return float64(u.PromptTokens)/1000 + float64(u.CompletionTokens)/500 }
	root := thread(t, s, r.ThreadID)
	charged := s.Model.Charged()
	require.InDelta(t, cost(charged), root.TotalPrice, 1e-6)
	require.Equal(t, charged.Requests, root.RequestCount)
	require.Equal(t, charged.TotalTokens, root.TotalTokens)
	child := tree(t, s, r.ThreadID)[1]
	require.Positive(t, child.TotalPrice)
	require.Less(t, child.TotalPrice, root.TotalPrice)
	sum := child.TotalPrice
	for _, m := range messages(t, s, r.ThreadID) {
		if m.Role == agent.RoleAssistant {
			require.InDelta(t, cost(*m.Usage), m.Usage.Price, 1e-9)
			sum += m.Usage.Price
		}
	}
	require.InDelta(t, root.TotalPrice, sum, 1e-6)
	require.InDelta(t, root.TotalPrice, r.Usage.Price, 1e-6)
}

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

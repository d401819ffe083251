package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

// sent is the request a transcript makes, as a provider reads it.
func sent(t *testing.T, model string, q Quirks, r agent.ModelRequest) map[string]any {
	t.Helper()
	b, err := encode(model, q, r)
	require.NoError(t, err)
	require.Empty(t, llmtest.Check(b))
	var m map[string]any
	require.NoError(t, json.Unmarshal(b, &m))
	return m
}

func message(t *testing.T, request map[string]any, i int) map[string]any {
	t.Helper()
	return request["messages"].([]any)[i].(map[string]any)
}

// round is a transcript with one tool round.
func round(call agent.Call, reasoning, result string) agent.ModelRequest {
	return agent.ModelRequest{Messages: []agent.Message{
		{Role: agent.RoleUser, Content: agent.Text("hi")},
		{Role: agent.RoleAssistant, ToolCalls: []agent.Call{call}, Reasoning: reasoning},
		{Role: agent.RoleTool, ToolCallID: call.ID, Content: agent.Text(result)},
	}}
}

func TestFault_A14_ReasoningIsKeptAndSentBack(t *testing.T) {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		o := against(t, sends(events(`{"choices":[{"delta":{"`+field+`":"think "}}]}`, `{"choices":[{"delta":{"reasoning_content":"hard","reasoning":"hard"}}]}`,
			calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{}"}}`), ends("tool_calls"), done)))
		require.NoError(t, o.err)
		require.Equal(t, "think hard", o.reply.Reasoning)
		require.Equal(t, "think hard", o.thought)
	}
	with := round(agent.NewCall("c1", "ls", "{}"), "think hard", "x")
	without := round(agent.NewCall("c1", "ls", "{}"), "", "x")
	unknown := QuirksOf("127.0.0.1", "m")
	require.Equal(t, "think hard", message(t, sent(t, "m", unknown, with), 1)["reasoning_content"])
	require.NotContains(t, message(t, sent(t, "m", unknown, without), 1), "reasoning_content")
	deepseek := QuirksOf("api.deepseek.com", "deepseek-chat")
	require.Equal(t, "", message(t, sent(t, "m", deepseek, without), 1)["reasoning_content"], "required of calls another provider made, too")
	for _, host := range []string{"api.openai.com", "api.mistral.ai", "api.groq.com", "generativelanguage.googleapis.com"} {
		require.NotContains(t, message(t, sent(t, "m", QuirksOf(host, "m"), with), 1), "reasoning_content", host)
	}
}

func TestFault_A18_EmptyStringsAreSent(t *testing.T) {
	r := round(agent.NewCall("c1", "ls", ""), "", "")
	r.Temperature = new(float64)
	request := sent(t, "m", Quirks{}, r)
	call := message(t, request, 1)["tool_calls"].([]any)[0].(map[string]any)["function"].(map[string]any)
	require.Equal(t, "{}", call["arguments"])
	require.Contains(t, message(t, request, 1), "content")
	require.Equal(t, "", message(t, request, 2)["content"])
	require.InDelta(t, 0, request["temperature"], 0, "go-openai drops a zero")

	request = sent(t, "m", Quirks{}, round(agent.NewCall("c1", "bad name:é", `{"cut`), "", "x\xff"))
	call = message(t, request, 1)["tool_calls"].([]any)[0].(map[string]any)["function"].(map[string]any)
	require.JSONEq(t, `{"invalid_arguments":"{\"cut"}`, call["arguments"].(string))
	require.Equal(t, "bad_name__", call["name"])
}

// What go-openai's types lose of a request, measured: as long as this holds, messages and
// temperatures are written by hand (encode.go). Where it fails after an update of
// go-openai, use its type.
func TestWhatGoOpenAILoses(t *testing.T) {
	const said = `{"role":"assistant","content":"","reasoning":"hm","tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":""},"extra_content":{"google":{"thought_signature":"s"}}}]}`
	var m goopenai.ChatCompletionMessage
	require.NoError(t, json.Unmarshal([]byte(said), &m))
	r := goopenai.ChatCompletionRequest{Model: "m", Temperature: 0, Messages: []goopenai.ChatCompletionMessage{m, {Role: "tool", ToolCallID: "c"}}}
	body, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"model":"m","stream":false,"messages":[
		{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"ls"}}]},
		{"role":"tool","tool_call_id":"c"}]}`, string(body), "empty content, reasoning, empty arguments, extra_content, a temperature of zero")
}

func TestExtraContentIsKeptAndSentBack(t *testing.T) {
	o := against(t, sends(events(calls(`{"id":"c1","function":{"name":"ls","arguments":"{}"},"extra_content":{"google":{"thought_signature":"abc"}}}`), ends("stop"), done)))
	require.NoError(t, o.err)
	require.JSONEq(t, `{"google":{"thought_signature":"abc"}}`, string(o.reply.Calls[0].Extra))
	extra := func(q Quirks, c agent.Call) any {
		return message(t, sent(t, "m", q, round(c, "", "x")), 1)["tool_calls"].([]any)[0].(map[string]any)["extra_content"]
	}
	require.Equal(t, map[string]any{"google": map[string]any{"thought_signature": "abc"}}, extra(Quirks{}, o.reply.Calls[0]))
	require.Nil(t, extra(QuirksOf("api.openai.com", "gpt-4o"), o.reply.Calls[0]))
	require.NotNil(t, extra(QuirksOf("generativelanguage.googleapis.com", "gemini-3-pro"), agent.NewCall("c", "ls", "{}")))
}

func TestQuirks(t *testing.T) {
	limit, warm := 100, 0.5
	r := hello(true)
	r.MaxTokens, r.Temperature = &limit, &warm
	for _, model := range []string{"o3-mini", "gpt-5", "gpt-5.1-mini"} {
		request := sent(t, model, QuirksOf("api.openai.com", model), r)
		require.NotContains(t, request, "max_tokens")
		require.NotContains(t, request, "temperature")
		require.InDelta(t, 100, request["max_completion_tokens"], 0)
	}
	require.Contains(t, sent(t, "gpt-5-chat-latest", QuirksOf("api.openai.com", "gpt-5-chat-latest"), r), "temperature")
	plain := sent(t, "m", QuirksOf("localhost", "m"), r)
	require.InDelta(t, 100, plain["max_tokens"], 0)
	require.Equal(t, map[string]any{"include_usage": true}, plain["stream_options"])

	mistral := round(agent.NewCall("call_0123456789abcdef_1_0", "ls", "{}"), "", "x")
	mistral.Messages = append(mistral.Messages, agent.Message{Role: agent.RoleUser, Content: agent.Text("and?")})
	mistral.Stream = true
	request := sent(t, "m", QuirksOf("api.mistral.ai", "m"), mistral)
	require.NotContains(t, request, "stream_options")
	require.Regexp(t, `^[A-Za-z0-9]{9}$`, message(t, request, 2)["tool_call_id"])
	require.Equal(t, "assistant", message(t, request, 3)["role"])
}

func TestToolSchemas(t *testing.T) {
	for given, want := range map[string]string{
		``:                  `{"type":"object","properties":{}}`,
		`null`:              `{"type":"object","properties":{}}`,
		`{"type":"object"}`: `{"type":"object","properties":{}}`,
		`{"$schema":"x","type":"object","properties":{"a":{}},"additionalProperties":{}}`: `{"type":"object","properties":{"a":{}},"additionalProperties":{}}`,
	} {
		r := hello(true)
		r.Tools = []agent.ToolSpec{{Name: "t", Schema: json.RawMessage(given)}}
		b, err := encode("m", Quirks{}, r)
		require.NoError(t, err)
		require.Empty(t, llmtest.Check(b))
		var q struct {
			Tools []struct {
				Function struct{ Parameters json.RawMessage }
			}
		}
		require.NoError(t, json.Unmarshal(b, &q))
		require.JSONEq(t, want, string(q.Tools[0].Function.Parameters))
	}
}

func TestAgainstTheScript(t *testing.T) {
	s := llmtest.Run(t)
	m := newModel(t, s, func(c *Config) { c.Headers = map[string]string{"X-Extra": "1"} })
	for _, stream := range []bool{true, false} {
		r := hello(stream)
		r.Messages[0].Content = agent.Text(`script: think hm => call ls {"path":"é"} && ls ;; fail 503 break x2 say all is well`)
		r.Meta = agent.CallMeta{TurnID: "t" + strings.Repeat("1", 2), Step: 1, Attempt: 1}
		if stream {
			r.Meta.TurnID = "t2"
		}
		o := generate(t.Context(), m, r)
		require.NoError(t, o.err)
		require.Len(t, o.reply.Calls, 2)
		require.Equal(t, "hm", o.reply.Reasoning)
		require.Positive(t, o.reply.Usage.TotalTokens)
		r.Messages = append(r.Messages, agent.Message{Role: agent.RoleAssistant, ToolCalls: o.reply.Calls, Reasoning: o.reply.Reasoning})
		for _, c := range o.reply.Calls {
			r.Messages = append(r.Messages, agent.Message{Role: agent.RoleTool, ToolCallID: c.ID})
		}
		var codes []string
		for r.Meta.Attempt = 1; r.Meta.Attempt <= 3; r.Meta.Attempt++ {
			codes = append(codes, generate(t.Context(), m, r).failure(t).Code)
		}
		require.Equal(t, []string{agent.ModelOverloaded, agent.ModelBrokenStream, agent.ModelBrokenStream}, codes)
		o = generate(t.Context(), m, r)
		require.NoError(t, o.err)
		require.Equal(t, "all is well", o.reply.Content)
		if stream {
			require.Equal(t, o.reply.Content, o.streamed)
		} else {
			require.Empty(t, o.streamed)
		}
	}
	require.Empty(t, s.Violations())
	require.Equal(t, 8, s.Asked("all is well", 1))
}

func TestConnectionErrors(t *testing.T) {
	s := llmtest.Run(t)
	m := newModel(t, s)
	s.Close()
	e := generate(t.Context(), m, hello(true)).failure(t)
	require.Equal(t, agent.ModelUnreachable, e.Code)
	require.True(t, e.Retryable)
	e = against(t, func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }).failure(t)
	require.Equal(t, agent.ModelBrokenStream, e.Code)
	require.True(t, e.Retryable)
}

func TestConnectionsAreReused(t *testing.T) {
	s := llmtest.Run(t)
	dials := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	m := newModel(t, s, func(c *Config) { c.HTTPClient = &http.Client{Transport: transport} })
	for range 5 {
		require.NoError(t, generate(t.Context(), m, hello(true)).err)
	}
	require.Equal(t, 1, dials)
}

func TestQueryAndHeaders(t *testing.T) {
	s := llmtest.Run(t)
	s.Raw(func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, r.URL.String()+" "+r.Header.Get("Api-Token"))
	})
	m := newModel(t, s, func(c *Config) {
		c.BaseURL += "/?api-version=1"
		c.Headers = map[string]string{"Api-Token": "another secret"}
	})
	e := generate(t.Context(), m, hello(true)).failure(t)
	require.Equal(t, "/v1/chat/completions?api-version=1 [header]", e.Message)
}

func TestConfig(t *testing.T) {
	for _, bad := range []Config{{BaseURL: "localhost:80"}, {BaseURL: "ftp://x"}, {BaseURL: "http://"}, {APIKey: "a\nb"}, {IdleTimeout: -time.Second}} {
		_, err := New(bad)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%+v", bad)
	}
	m, err := New(Config{BaseURL: "https://example.com/v1/chat/completions/"})
	require.NoError(t, err)
	require.Equal(t, "https://example.com/v1", m.cfg.BaseURL)
	require.Equal(t, agent.ModelBadRequest, generate(t.Context(), m, hello(true)).failure(t).Code, "no model")
}

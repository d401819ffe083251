package openai

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// asked is a request with all that providers differ in: a tool round by another
// provider, reasoning, a steered message, sampling, a limit, a schema.
func asked() agent.ModelRequest {
	limit, hot := 100, 1.5
	r := round(agent.NewCall("call_0123456789abcdef_1_0", "ls", "{}"), "I thought", "x")
	r.Messages[1].ToolCalls[0].Extra = json.RawMessage(`{"other":{"signature":"s"}}`)
	r.Messages = append(r.Messages, agent.Message{Role: agent.RoleUser, Content: agent.Text("and?")})
	r.Stream, r.MaxTokens, r.Temperature, r.TopP = true, &limit, &hot, &hot
	r.AnswerSchema = json.RawMessage(`{"type":"object"}`)
	return r
}

// What each provider is sent. A thread may come to it from any other: the request
// above is one of those.
func TestProviderQuirks(t *testing.T) {
	type has = map[string]any // what must be in the request; nil = must not be there
	own := regexp.MustCompile(`^call_`)
	nine := regexp.MustCompile(`^[A-Za-z0-9]{9}$`)
	usage := map[string]any{"include_usage": true}
	schema := map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "strict": false, "schema": map[string]any{"type": "object"}}}
	tested := map[string]bool{}
	for _, c := range []struct {
		row, host, model string
		request          has
		reasoning        string // the field of it; "" = none
		extra            bool
		id               *regexp.Regexp
		messages         int
	}{
		{"OpenAI", "api.openai.com", "gpt-4o", has{"max_tokens": 100.0, "max_completion_tokens": nil, "temperature": 1.5, "stream_options": usage, "response_format": schema}, "", false, own, 4},
		{"Azure OpenAI", "x.openai.azure.com", "gpt-4o", has{"max_tokens": 100.0, "temperature": 1.5, "stream_options": usage, "response_format": schema}, "", false, own, 4},
		{"OpenAI reasoning models", "api.openai.com", "o3-mini", has{"max_tokens": nil, "max_completion_tokens": 100.0, "temperature": nil, "top_p": nil}, "", false, own, 4},
		{"OpenAI reasoning models", "openrouter.ai", "openai/gpt-5", has{"max_tokens": nil, "max_completion_tokens": 100.0, "temperature": nil}, "reasoning", true, own, 4},
		{"OpenAI chat models of the gpt-5 family", "api.openai.com", "gpt-5-chat-latest", has{"max_completion_tokens": 100.0, "temperature": 1.5}, "", false, own, 4},
		{"OpenAI models that reason or call", "api.openai.com", "gpt-6-luna", has{"max_completion_tokens": 100.0, "temperature": nil, "reasoning_effort": nil}, "", false, own, 4},
		{"OpenAI reasoning models", "api.openai.com", "gpt-5.1-chat-latest", has{"max_completion_tokens": 100.0, "temperature": nil}, "", false, own, 4},
		{"Mistral", "api.mistral.ai", "mistral-large-latest", has{"max_tokens": 100.0, "stream_options": nil, "response_format": schema}, "", false, nine, 5},
		{"Mistral models elsewhere", "localhost", "mistralai/Mistral-7B-Instruct-v0.3", has{"max_tokens": 100.0, "stream_options": usage}, "reasoning_content", true, nine, 4},
		{"Groq, Cerebras", "api.groq.com", "llama-3.3-70b-versatile", has{"max_tokens": 100.0, "response_format": nil}, "", false, own, 4},
		{"DeepSeek, Kimi", "api.moonshot.ai", "kimi-k2", has{"max_tokens": 100.0, "response_format": nil}, "reasoning_content", true, own, 4},
		{"DeepSeek", "api.deepseek.com", "deepseek-chat", has{"max_tokens": 100.0, "response_format": map[string]any{"type": "json_object"}}, "reasoning_content", true, own, 4},
		{"DeepSeek and Kimi thinking models elsewhere", "localhost", "deepseek-r1:8b", has{"max_tokens": 100.0}, "reasoning_content", true, own, 4},
		{"Gemini", "generativelanguage.googleapis.com", "gemini-2.5-flash", has{"max_tokens": 100.0, "stream_options": usage, "response_format": schema}, "", true, own, 4},
		{"Gemini models without sampling", "generativelanguage.googleapis.com", "gemini-4-neon", has{"max_tokens": 100.0, "temperature": nil, "response_format": schema}, "", true, own, 4},
		{"Anthropic", "api.anthropic.com", "claude-sonnet-4-5", has{"max_tokens": 100.0, "temperature": 1.0, "response_format": nil}, "", false, own, 4},
		{"Claude models without sampling", "api.anthropic.com", "claude-opus-5-5", has{"max_tokens": 100.0, "temperature": nil, "top_p": nil, "response_format": nil}, "", false, own, 4},
		{"Kimi models with fixed sampling", "api.moonshot.ai", "kimi-k3", has{"max_tokens": 100.0, "temperature": nil}, "reasoning_content", true, own, 4},
		{"xAI", "api.x.ai", "grok-4.3", has{"max_tokens": 100.0, "temperature": 1.5, "stream_options": usage, "response_format": schema}, "reasoning_content", true, own, 4},
		{"OpenRouter", "openrouter.ai", "anthropic/claude-sonnet-4.5", has{"max_tokens": 100.0, "temperature": 1.5, "response_format": nil}, "reasoning", true, own, 4},
		{"Ollama, vLLM, llama.cpp, LM Studio", "localhost", "qwen3:8b", has{"max_tokens": 100.0, "temperature": 1.5, "stream_options": usage, "response_format": nil}, "reasoning_content", true, own, 4},
		{"Ollama, vLLM, llama.cpp, LM Studio", "127.0.0.1", "meta-llama/Llama-3.1-8B-Instruct", has{"max_tokens": 100.0, "max_completion_tokens": nil}, "reasoning_content", true, own, 4},
	} {
		t.Run(c.row+"/"+c.model, func(t *testing.T) {
			tested[c.row] = true
			q := QuirksOf(c.host, c.model)
			request := sent(t, c.model, q, asked())
			for field, want := range c.request {
				if want == nil {
					require.NotContains(t, request, field)
					continue
				}
				require.Equal(t, want, request[field], field)
			}
			require.Len(t, request["messages"], c.messages)
			called := message(t, request, 1)
			for _, field := range []string{"reasoning_content", "reasoning"} {
				if field == c.reasoning {
					require.Equal(t, "I thought", called[field])
				} else {
					require.NotContains(t, called, field)
				}
			}
			call := called["tool_calls"].([]any)[0].(map[string]any)
			require.Equal(t, c.extra, call["extra_content"] != nil)
			require.Regexp(t, c.id, call["id"])
			require.Equal(t, call["id"], message(t, request, 2)["tool_call_id"])

			offered := asked()
			offered.Tools = []agent.ToolSpec{{Name: "ls", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}}
			withTools := sent(t, c.model, q, offered)
			format := withTools["response_format"]
			if q.NoEffortWithTools {
				require.Equal(t, "none", withTools["reasoning_effort"])
			} else {
				require.NotContains(t, withTools, "reasoning_effort")
			}
			if q.FormatWithoutTools || c.request["response_format"] == nil && q.Format == "" {
				require.Nil(t, format, "with tools")
			} else {
				require.NotNil(t, format, "with tools")
			}
		})
	}
	for _, row := range quirkTable {
		require.True(t, tested[row.name], "%s: no test says what it is sent", row.name)
	}
}

// Azure's addresses have their version in the query, and take the key in a header
// of their own; any other server gets the key as a bearer token only.
func TestAzureAddressAndKey(t *testing.T) {
	var path, query, bearer, key string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, query, bearer, key = r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Api-Key")
		sends(events(says("ok"), ends("stop"), done))(w, r, nil)
	}))
	t.Cleanup(s.Close)
	m, err := New(Config{BaseURL: s.URL + "/openai/deployments/d?api-version=2024-10-21", APIKey: testKey, Model: "m"})
	require.NoError(t, err)
	require.NoError(t, generate(t.Context(), m, hello(true)).err)
	require.Equal(t, "/openai/deployments/d/chat/completions", path)
	require.Equal(t, "api-version=2024-10-21", query)
	require.Equal(t, "Bearer "+testKey, bearer)
	require.Empty(t, key)
	for host, want := range map[string]bool{"x.openai.azure.com": true, "x.services.ai.azure.com": true, "y.azure-api.net": true, "azure.com.evil.org": false, "api.openai.com": false} {
		require.Equal(t, want, azureHost.MatchString(host), host)
	}
}

// FAULTS A12 and A13: how providers say that a request is too long, with the
// window where they name it, and what must not be taken for it.
func TestFault_A13_TooLongInManyWords(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		limit      int64
	}{
		{"OpenAI", `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, 400, 8192},
		{"OpenAI, newer", `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","code":"context_length_exceeded"}}`, 400, 0},
		{"OpenAI, per minute", `{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 90000.","type":"tokens","code":"rate_limit_exceeded"}}`, 429, 0},
		{"Azure", `{"error":{"message":"This model's maximum context length is 128000 tokens. However, you requested 130000 tokens (126000 in the messages, 4000 in the completion).","code":"context_length_exceeded"}}`, 400, 128000},
		{"vLLM", `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages, Please reduce the length of the messages.","type":"BadRequestError","code":400}`, 400, 4096},
		{"vLLM, newer", `{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that max_model_len is no smaller.","type":"BadRequestError","code":400}`, 400, 4096},
		{"llama.cpp", `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, 400, 4096},
		{"llama.cpp, older", `{"error":{"code":500,"message":"the request exceeds the available context size (4096 tokens). try increasing the context size","type":"server_error"}}`, 500, 4096},
		{"LM Studio", `{"error":"Trying to keep the first 4500 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`, 400, 4096},
		{"Anthropic", `{"error":{"code":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum","type":"invalid_request_error"}}`, 400, 200000},
		{"Anthropic, with the answer", `{"error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 190000 + 21333 > 200000, decrease input length or max_tokens and try again"}}`, 400, 200000},
		{"Gemini", `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, 400, 1048576},
		{"DeepSeek", `{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 70000 tokens.","type":"invalid_request_error"}}`, 400, 65536},
		{"Mistral", `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}`, 400, 32768},
		{"OpenRouter", `{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens.","code":400}}`, 400, 32768},
		{"xAI", `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, 400, 131072},
		{"Qwen", `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]","type":"invalid_request_error"}}`, 400, 30720},
		{"Groq", `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","code":"context_length_exceeded"}}`, 400, 0},
		{"Bedrock", `{"message":"Input is too long for requested model."}`, 400, 0},
		{"TGI", `{"error":"Input validation error: ` + "`inputs` tokens + `max_new_tokens` must be <= 8193" + `. Given: 9000 ` + "`inputs`" + ` tokens"}`, 422, 8193},
		{"a proxy", `<html>413</html>`, 413, 0},
	} {
		e := responseError(&http.Response{StatusCode: c.status, Header: http.Header{}}, []byte(c.body))
		require.Equal(t, agent.ModelContextTooLong, e.Code, "%s: %v", c.name, e)
		require.False(t, e.Retryable, c.name)
		require.Equal(t, c.limit, e.Limit, c.name)
	}
	for _, c := range []struct {
		status int
		body   string
		code   string
	}{
		{429, ``, agent.ModelRateLimited},
		{429, `{"error":{"message":"Rate limit reached for gpt-4o in organization x on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000. Please try again in 6s.","code":"rate_limit_exceeded"}}`, agent.ModelRateLimited},
		{400, `{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens"}}`, agent.ModelBadRequest},
	} {
		e := responseError(&http.Response{StatusCode: c.status, Header: http.Header{}}, []byte(c.body))
		require.Equal(t, c.code, e.Code, c.body)
		require.Zero(t, e.Limit)
	}
}

package openai

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

// streamCase is a stream that ends in one call, or several.
type streamCase struct {
	name  string
	body  string
	calls []agent.Call
}

func runStreamCases(t *testing.T, cases []streamCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := against(t, sends(c.body))
			require.NoError(t, o.err)
			require.Equal(t, c.calls, o.reply.Calls)
			require.Equal(t, "tool_calls", o.reply.FinishReason)
		})
	}
}

func TestFault_A1_CallsWithoutIndex(t *testing.T) {
	one := []agent.Call{agent.NewCall("c1", "ls", `{"path":"."}`)}
	two := []agent.Call{agent.NewCall("c1", "ls", `{"a":1}`), agent.NewCall("c2", "ls", `{"b":2}`)}
	runStreamCases(t, []streamCase{
		{"two pieces", events(calls(`{"id":"c1","function":{"name":"ls","arguments":"{\"path\""}}`), calls(`{"function":{"arguments":":\".\"}"}}`), ends("tool_calls"), done), one},
		{"id repeated", events(calls(`{"id":"c1","function":{"name":"ls","arguments":"{\"path\""}}`), calls(`{"id":"c1","function":{"arguments":":\".\"}"}}`), ends("tool_calls"), done), one},
		{"id and name repeated", events(calls(`{"id":"c1","function":{"name":"ls","arguments":"{\"path\""}}`), calls(`{"id":"c1","function":{"name":"ls","arguments":":\".\"}"}}`), ends("tool_calls"), done), one},
		{"new id per piece", events(calls(`{"id":"c1","function":{"name":"ls","arguments":"{\"path\""}}`), calls(`{"id":"zz","function":{"arguments":":\".\"}"}}`), ends("tool_calls"), done), one},
		{"two calls", events(calls(`{"id":"c1","function":{"name":"ls","arguments":"{\"a\":1}"}}`), calls(`{"id":"c2","function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done), two},
		{"two calls in one chunk", events(calls(`{"id":"c1","function":{"name":"ls","arguments":"{\"a\":1}"}},{"id":"c2","function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done), two},
		{
			"two calls without ids", events(calls(`{"function":{"name":"ls","arguments":"{\"a\":1}"}}`), calls(`{"function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done),
			[]agent.Call{agent.NewCall("", "ls", `{"a":1}`), agent.NewCall("", "ls", `{"b":2}`)},
		},
		{"index 0 for both", events(calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{\"a\":1}"}}`), calls(`{"index":0,"id":"c2","function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done), two},
		{
			"interleaved", events(calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{\"a\""}}`), calls(`{"index":1,"id":"c2","function":{"name":"ls","arguments":"{\"b\""}}`),
				calls(`{"index":0,"function":{"arguments":":1}"}}`), calls(`{"index":1,"function":{"arguments":":2}"}}`), ends("tool_calls"), done), two,
		},
	})
}

func TestFault_A2_NullIndex(t *testing.T) {
	runStreamCases(t, []streamCase{{
		"two pieces", events(calls(`{"index":null,"id":"c1","function":{"name":"ls","arguments":"{\"a\""}}`), calls(`{"index":null,"id":null,"function":{"name":null,"arguments":":1}"}}`), ends("tool_calls"), done),
		[]agent.Call{agent.NewCall("c1", "ls", `{"a":1}`)},
	}})
}

func TestFault_A3_OddArguments(t *testing.T) {
	for name, args := range map[string]string{"missing": ``, "empty": `,"arguments":""`, "null": `,"arguments":null`} {
		runStreamCases(t, []streamCase{{
			name, events(calls(`{"index":0,"id":"c1","function":{"name":"ls"`+args+`}}`), ends("tool_calls"), done),
			[]agent.Call{agent.NewCall("c1", "ls", `{}`)},
		}})
	}
	runStreamCases(t, []streamCase{
		{"object", events(calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":{"path": ".", "n": [1, 2]}}}`), ends("tool_calls"), done), []agent.Call{agent.NewCall("c1", "ls", `{"path":".","n":[1,2]}`)}},
		{"invalid but complete", events(calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{'path'"}}`), ends("tool_calls"), done), []agent.Call{agent.NewCall("c1", "ls", `{'path'`)}},
		{"the old form", events(`{"choices":[{"delta":{"function_call":{"name":"ls","arguments":"{}"}}}]}`, ends("function_call"), done), []agent.Call{agent.NewCall("", "ls", `{}`)}},
	})
}

func TestFault_A4_UsageOnlyChunk(t *testing.T) {
	for name, usage := range map[string]string{
		"plain":     `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":5}}}`,
		"floats":    `{"choices":[],"usage":{"prompt_tokens":7.0,"completion_tokens":"3","prompt_cache_hit_tokens":5}}`,
		"no list":   `{"choices":null,"usage":{"input_tokens":7,"output_tokens":3,"cached_tokens":5}}`,
		"in x_groq": `{"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_cache_hit_tokens":5}}}`,
	} {
		o := against(t, sends(events(says("hello"), ends("stop"), usage, done)))
		require.NoError(t, o.err, name)
		require.Equal(t, "hello", o.reply.Content)
		require.Equal(t, agent.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10, CachedTokens: 5, Requests: 1}, o.reply.Usage, name)
	}
}

func TestFault_A5_StreamEndsWithoutFinish(t *testing.T) {
	abort := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		_, _ = fmt.Fprint(w, events(says("half an ")))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, f := range map[string]llmtest.RawFunc{
		"clean end":        sends(events(says("half an "), says("answer"))),
		"cut line":         sends(events(says("half an ")) + `data: {"choices":[{"delta":{"con`),
		"connection reset": abort,
		"empty body":       sends(""),
		"comments only":    sends(": hi\n\n: hi\n\n"),
		"role only":        sends(events(`{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)),
		"done at once":     sends(events(done)),
		"garbage":          sends(events(says("half"), `{"choices":`)),
	} {
		o := against(t, f)
		e := o.failure(t)
		require.Equal(t, agent.ModelBrokenStream, e.Code, "%s: %v", name, e)
		require.True(t, e.Retryable, name)
	}
}

func TestFault_A6_CutArguments(t *testing.T) {
	cut := calls(`{"index":0,"id":"c1","function":{"name":"shell","arguments":"{\"command\":\"rm -rf /tmp/x"}}`)
	whole := calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{}"}}`)
	for _, c := range []struct{ name, body, code string }{
		{"end of body", events(cut), agent.ModelBrokenStream},
		{"done without reason", events(cut, done), agent.ModelBrokenStream},
		{"length", events(cut, ends("length"), done), agent.ModelCutOff},
		{"MAX_TOKENS", events(cut, ends("MAX_TOKENS"), done), agent.ModelCutOff},
		{"length after a whole call", events(whole, ends("length"), done), agent.ModelCutOff},
		{"length before any text", events(ends("length"), done), agent.ModelCutOff},
		{"length, not streamed", `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{\"a"}}]},"finish_reason":"length"}]}`, agent.ModelCutOff},
	} {
		o := against(t, sends(c.body))
		require.Equal(t, c.code, o.failure(t).Code, c.name)
		require.Empty(t, o.reply.Calls, c.name)
	}
	o := against(t, sends(events(says("long tex"), ends("length"), done)))
	require.NoError(t, o.err, "text that reached the limit is shown")
	require.Equal(t, "length", o.reply.FinishReason)
}

func TestFault_A7_JSONInsteadOfStream(t *testing.T) {
	reply := `{"id":"x","model":"mm","choices":[{"index":0,"message":{"role":"assistant","content":"hello","reasoning_content":"hm","tool_calls":[
		{"id":"same","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"same","type":"function","function":{"name":"ls","arguments":{"a":1}}}]},
		"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`
	for _, kind := range []string{"application/json", "text/event-stream", ""} {
		o := against(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", kind)
			_, _ = fmt.Fprint(w, "\n "+reply)
		})
		require.NoError(t, o.err, kind)
		require.Equal(t, "hello", o.reply.Content)
		require.Equal(t, "hello", o.streamed)
		require.Equal(t, "hm", o.reply.Reasoning)
		require.Equal(t, "mm", o.reply.Model)
		require.Equal(t, []agent.Call{agent.NewCall("same", "ls", "{}"), agent.NewCall("same", "ls", `{"a":1}`)}, o.reply.Calls)
		require.EqualValues(t, 3, o.reply.Usage.TotalTokens)
	}
	o := against(t, sends(`{"choices":[{"message":{"content":"hel`))
	require.Equal(t, agent.ModelBrokenStream, o.failure(t).Code, "cut JSON")
	o = against(t, sends("<!DOCTYPE html><html>Sign in</html>"))
	require.Equal(t, agent.ModelBadResponse, o.failure(t).Code)
	require.True(t, o.failure(t).Retryable)
}

func TestFault_A8_ErrorInsideTheStream(t *testing.T) {
	for _, c := range []struct{ body, code, text string }{
		{events(`{"error":{"message":"it broke","type":"server_error"}}`), agent.ModelOverloaded, "it broke"},
		{`data: { "error" : {"message":"slow down","code":429}}` + "\n", agent.ModelRateLimited, "slow down"},
		{events(`{"id":"x","error":{"message":"upstream","code":502},"choices":[{"delta":{},"finish_reason":"error"}]}`), agent.ModelOverloaded, "upstream"},
		{events(`{"object":"error","message":"too long: maximum context length is 9","type":"BadRequestError","code":400}`), agent.ModelContextTooLong, "maximum context"},
		{"event: error\n" + events(`{"message":"it broke"}`), agent.ModelOverloaded, "it broke"},
		{"event: error\ndata: Internal trouble\n\n", agent.ModelOverloaded, "Internal trouble"},
		{`{"error":{"message":"plain line","type":"invalid_request_error"}}` + "\n", agent.ModelBadRequest, "plain line"},
		{"{\n \"error\": {\n  \"message\": \"several lines\"\n }\n}\n", agent.ModelOverloaded, "several lines"},
		{`[{"error":{"code":429,"message":"a list","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"7s"}]}}]`, agent.ModelRateLimited, "a list"},
		{events(`{"error":"just text"}`), agent.ModelOverloaded, "just text"},
		{events(`{"choices":[{"delta":{},"error":{"message":"in the choice","code":503}}]}`), agent.ModelOverloaded, "in the choice"},
		{strings.Repeat(": comment\n\n", 20) + events(`{"error":{"message":"after comments"}}`), agent.ModelOverloaded, "after comments"},
		{events(`{"error":{"message":"bad key ` + testKey + `","type":"authentication_error"}}`), agent.ModelAuth, "bad key [key]"},
	} {
		o := against(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			if !strings.HasPrefix(c.body, "{") && !strings.HasPrefix(c.body, "[") {
				_, _ = fmt.Fprint(w, events(says("half")))
			}
			_, _ = fmt.Fprint(w, c.body)
			if strings.HasPrefix(c.body, "data") { // the error must not wait for the end
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		})
		e := o.failure(t)
		require.Equal(t, c.code, e.Code, "%s -> %v", c.body, e)
		require.Contains(t, e.Message, c.text)
	}
}

func TestFault_A9_ManyComments(t *testing.T) {
	o := against(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		for range 1000 {
			_, _ = fmt.Fprint(w, ": keep-alive\n\n")
		}
		for range 4 { // longer than the idle timeout altogether
			_, _ = fmt.Fprint(w, ": keep-alive\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(750 * time.Millisecond)
		}
		_, _ = fmt.Fprint(w, "event: ping\ndata: ping\n\n"+events(says("hello"), ends("stop"), done))
	}, func(c *Config) { c.IdleTimeout = 2500 * time.Millisecond })
	require.NoError(t, o.err)
	require.Equal(t, "hello", o.reply.Content)
}

func TestFault_A10_Silence(t *testing.T) {
	short := func(c *Config) { c.IdleTimeout = time.Second }
	silent := func(body string) llmtest.RawFunc {
		return func(w http.ResponseWriter, r *http.Request, _ []byte) {
			if body != "" {
				_, _ = fmt.Fprint(w, body)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}
	}
	for _, body := range []string{"", ": hi\n\n", events(says("one chunk"))} {
		e := against(t, silent(body), short).failure(t)
		require.Equal(t, agent.ModelIdleTimeout, e.Code, body)
		require.True(t, e.Retryable)
	}
	o := against(t, silent(events(says("all"), ends("stop"))), short)
	require.NoError(t, o.err, "silence after the finish reason takes nothing away")
	require.Equal(t, "all", o.reply.Content)

	s := llmtest.Run(t)
	s.Raw(silent(""))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o = generate(ctx, newModel(t, s), hello(true))
	require.Equal(t, context.DeadlineExceeded, o.err, "the caller's own deadline is no idle timeout")
}

func TestFault_A11_RetryAfter(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		header, value string
		want          time.Duration
	}{
		"seconds":      {"Retry-After", "30", 30 * time.Second},
		"fraction":     {"Retry-After", "1.5", 1500 * time.Millisecond},
		"date":         {"Retry-After", date(time.Hour), time.Hour},
		"past date":    {"Retry-After", date(-time.Hour), 0},
		"milliseconds": {"Retry-After-Ms", "1500", 1500 * time.Millisecond},
		"absurd":       {"Retry-After", "1e30", 0},
		"far away":     {"Retry-After", date(9000 * time.Hour), 0},
		"nonsense":     {"Retry-After", "soon", 0},
		"negative":     {"Retry-After", "-5", 0},
	} {
		e := against(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set(c.header, c.value)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprint(w, `{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}`)
		}).failure(t)
		require.Equal(t, agent.ModelRateLimited, e.Code)
		require.True(t, e.Retryable)
		require.InDelta(t, c.want.Seconds(), e.RetryAfter.Seconds(), 60*c.want.Hours(), name) // a date is read later than it was written
	}
}

// statusCase is an error response and its class.
type statusCase struct {
	status int
	body   string
	code   string
	retry  bool
}

func runStatusCases(t *testing.T, cases []statusCase) {
	t.Helper()
	for _, c := range cases {
		e := against(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.WriteHeader(c.status)
			_, _ = fmt.Fprint(w, c.body)
		}).failure(t)
		require.Equal(t, c.code, e.Code, "%d %s -> %v", c.status, c.body, e)
		require.Equal(t, c.retry, e.Retryable, "%d %s", c.status, c.body)
		require.Equal(t, c.status, e.Status)
		require.NotEmpty(t, e.Message)
	}
}

func TestFault_A12_EmptyErrorBodies(t *testing.T) {
	runStatusCases(t, []statusCase{
		{429, ``, agent.ModelRateLimited, true},
		{429, `{"error":{"message":"You exceeded your current quota, please check your plan","status":"RESOURCE_EXHAUSTED"}}`, agent.ModelRateLimited, true},
		{429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, agent.ModelRateLimited, false},
		{429, `{"error":{"message":"Too many tokens per minute"}}`, agent.ModelRateLimited, true},
		{400, ``, agent.ModelBadRequest, false},
		{401, `{"error":{"message":"Incorrect API key provided: ` + testKey + `"}}`, agent.ModelAuth, false},
		{403, ``, agent.ModelAuth, false},
		{404, `{"detail":"Not Found"}`, agent.ModelUnknown, false},
		{404, `404 page not found`, agent.ModelBadResponse, false},
		{404, `<html><h1>Not Found</h1></html>`, agent.ModelBadResponse, false},
		{404, `{"error":{"message":"The model 'gpt-9' does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}`, agent.ModelUnknown, false},
		{403, `{"error":{"message":"Project does not have access to model","type":"invalid_request_error","code":"model_not_found"}}`, agent.ModelUnknown, false},
		{400, `{"error":{"message":"The model llama-2 has been decommissioned and is no longer supported.","code":"model_decommissioned"}}`, agent.ModelUnknown, false},
		{400, `{"error":{"message":"foo/bar is not a valid model ID","code":400}}`, agent.ModelUnknown, false},
		{400, `{"object":"error","message":"Invalid model: mistral-huge","type":"invalid_model"}`, agent.ModelUnknown, false},
		{404, `{"error":{"message":"model \"qwen9\" not found, try pulling it first","type":"api_error"}}`, agent.ModelUnknown, false},
		{404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, agent.ModelUnknown, false},
		{422, `{"detail":[{"loc":["body"],"msg":"extra"}]}`, agent.ModelBadRequest, false},
		{408, ``, agent.ModelOverloaded, true},
		{409, ``, agent.ModelOverloaded, true},
		{500, `<html>`, agent.ModelOverloaded, true},
		{503, `overloaded`, agent.ModelOverloaded, true},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, agent.ModelOverloaded, true},
		{400, `{"error":{"message":"filtered","code":"content_filter"}}`, agent.ModelContentFilter, false},
		{308, ``, agent.ModelBadResponse, false},
	})
}

func TestFault_A13_ContextTooLong(t *testing.T) {
	runStatusCases(t, []statusCase{
		{400, `{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}`, agent.ModelContextTooLong, false},
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens."}}`, agent.ModelContextTooLong, false},
		{400, `{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, agent.ModelContextTooLong, false},
		{400, `{"error":{"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}`, agent.ModelContextTooLong, false},
		{500, `{"error":{"message":"the request exceeds the available context size"}}`, agent.ModelContextTooLong, false},
		{413, ``, agent.ModelContextTooLong, false},
		{429, `{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 45000","code":"rate_limit_exceeded"}}`, agent.ModelContextTooLong, false},
		{400, `{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens"}}`, agent.ModelBadRequest, false},
	})
}

func TestFault_A15_RepeatedIDs(t *testing.T) {
	runStreamCases(t, []streamCase{
		{
			"same id, indexes", events(calls(`{"index":0,"id":"call_0","function":{"name":"ls","arguments":"{\"a\":1}"}},{"index":1,"id":"call_0","function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done),
			[]agent.Call{agent.NewCall("call_0", "ls", `{"a":1}`), agent.NewCall("call_0", "ls", `{"b":2}`)},
		},
		{
			"same id, no index", events(calls(`{"id":"call_0","function":{"name":"ls","arguments":"{\"a\":1}"}}`), calls(`{"id":"call_0","function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done),
			[]agent.Call{agent.NewCall("call_0", "ls", `{"a":1}`), agent.NewCall("call_0", "ls", `{"b":2}`)},
		},
		{"empty id", events(calls(`{"index":0,"id":"","function":{"name":"ls","arguments":"{}"}}`), ends("tool_calls"), done), []agent.Call{agent.NewCall("", "ls", `{}`)}},
	})
}

func TestFault_A16_StopWithCalls(t *testing.T) {
	for _, reason := range []string{"stop", "tool_calls", "function_call", "STOP", "tool_use", "eos"} {
		runStreamCases(t, []streamCase{{
			reason, events(calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{}"}}`), ends(reason), done), []agent.Call{agent.NewCall("c1", "ls", `{}`)},
		}})
	}
}

func TestFault_A17_UnknownToolIsPassedOn(t *testing.T) {
	runStreamCases(t, []streamCase{
		{"made up", events(calls(`{"index":0,"id":"c1","function":{"name":"no such: tool","arguments":"{}"}}`), ends("tool_calls"), done), []agent.Call{agent.NewCall("c1", "no such: tool", `{}`)}},
		{"no name", events(calls(`{"index":0,"id":"c1","function":{"arguments":"{}"}}`), ends("tool_calls"), done), []agent.Call{agent.NewCall("c1", "", `{}`)}},
	})
}

func TestFault_A19_WhatGoOpenAITakesForAnEnd(t *testing.T) {
	o := against(t, sends(events(says("all"))+`data: `+ends("stop")))
	require.NoError(t, o.err, "a last line without a line break counts")
	require.Equal(t, "all", o.reply.Content)
	for name, body := range map[string]string{
		"CRLF":            strings.ReplaceAll(events(says("all"), ends("stop"), done), "\n", "\r\n"),
		"CR":              strings.ReplaceAll(events(says("all"), ends("stop"), done), "\n", "\r"),
		"no space":        strings.ReplaceAll(events(says("all"), ends("stop"), done), "data: ", "data:"),
		"no blank lines":  strings.ReplaceAll(events(says("all"), ends("stop"), done), "\n\n", "\n"),
		"ids and retry":   "id: 1\nretry: 5\n" + events(says("all"), ends("stop"), done),
		"byte order mark": "\xEF\xBB\xBF" + events(says("all"), ends("stop"), done),
		"parts":           events(`{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"ll"}]}}]}`, ends("stop"), done),
		"several lines":   "data: {\"choices\":[\ndata: {\"delta\":{\"content\":\"all\"}}]}\n\n" + events(ends("stop"), done),
		"no done":         events(says("all"), ends("stop")),
		"no reason":       events(says("all"), done),
		"late text":       events(says("a"), ends("stop"), says("ll"), ends("stop"), done),
		"other choices":   events(`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"all"}}]}`, ends("stop"), done),
		"bare lines":      says("all") + "\n" + ends("stop") + "\n",
		"refusal":         events(`{"choices":[{"delta":{"refusal":"all"}}]}`, ends("stop"), done),
	} {
		o := against(t, sends(body))
		require.NoError(t, o.err, name)
		require.Equal(t, "all", o.reply.Content, name)
		require.Equal(t, "all", o.streamed, name)
		require.Equal(t, "stop", o.reply.FinishReason, name)
	}
	for reason, code := range map[string]string{
		"content_filter": agent.ModelContentFilter, "error": agent.ModelOverloaded,
		"insufficient_system_resource": agent.ModelOverloaded, "abort": agent.ModelBrokenStream,
	} {
		require.Equal(t, code, against(t, sends(events(says("x"), ends(reason), done))).failure(t).Code, reason)
	}
	o = against(t, sends(events(says("a"), ends("stop"), says("cut"))))
	require.Equal(t, agent.ModelBrokenStream, o.failure(t).Code, "text after the reason, then no end")
	o = against(t, sends(events(says(strings.Repeat("x", 600)), says(strings.Repeat("x", 600)), ends("stop"), done)), func(c *Config) { c.MaxReplyBytes = 1000 })
	require.Equal(t, agent.ModelBadResponse, o.failure(t).Code, "too large")
	endless := strings.Repeat(events(says(strings.Repeat("again ", 10_000))), 200)
	o = against(t, sends(endless))
	require.Contains(t, o.failure(t).Message, "one reply is larger than 8388608 bytes")
	require.InDelta(t, 8<<20, len(o.reply.Content), 100_000, "what had arrived is kept")
	o = against(t, sends("data: "+strings.Repeat("x", 3<<20)), func(c *Config) { c.MaxReplyBytes = 1000 })
	require.Equal(t, agent.ModelBadResponse, o.failure(t).Code, "an endless line")
}

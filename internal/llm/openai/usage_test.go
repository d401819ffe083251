package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

// What providers report is made consistent: the total is prompt and completion,
// what is cached or reasoning is a part of them, and absurd figures are none.
func TestUsageIsSane(t *testing.T) {
	for _, c := range []struct {
		raw                           string
		prompt, completion, cached, r int64
	}{
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`, 10, 5, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":3}`, 10, 5, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":5}`, 10, 5, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":null}`, 10, 5, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":-7}`, 10, 5, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":1e18}`, 10, 5, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":"1e308"}`, 10, 5, 0, 0},
		{`{"prompt_tokens":"10","completion_tokens":"5.0","total_tokens":15.9}`, 10, 5, 0, 0},
		{`{"prompt_tokens":10.0,"completion_tokens":5,"total_tokens":{"a":1}}`, 10, 5, 0, 0},
		{`{"prompt_tokens":null,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":-1}}`, 10, 5, 0, 0},
		{`{"prompt_tokens":1e30,"completion_tokens":1e300,"total_tokens":1}`, 0, 0, 0, 0},
		{`{"prompt_tokens":1e400,"completion_tokens":5,"total_tokens":1}`, 0, 0, 0, 0},
		{`{"prompt_tokens":9223372036854775807,"completion_tokens":5,"total_tokens":12}`, 0, 0, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":20000001,"total_tokens":12}`, 0, 0, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":[5]}`, 0, 0, 0, 0},
		{`{"input_tokens":-1,"output_tokens":5}`, 0, 0, 0, 0},
		{`{"prompt_tokens":"NaN","completion_tokens":5,"total_tokens":"Infinity"}`, 0, 0, 0, 0},
		{`{"prompt_tokens":-3,"completion_tokens":5,"total_tokens":12}`, 0, 0, 0, 0},
		{`{"total_tokens":12}`, 12, 0, 0, 0},
		{`{"prompt_tokens":1e18,"completion_tokens":1e18,"total_tokens":1e18}`, 0, 0, 0, 0},
		{`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, 0, 0, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":115,"completion_tokens_details":{"reasoning_tokens":100}}`, 10, 105, 0, 100}, // xAI
		{`{"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":100}}`, 10, 105, 0, 100},
		{`{"prompt_tokens":10,"completion_tokens":105,"total_tokens":115,"completion_tokens_details":{"reasoning_tokens":100}}`, 10, 105, 0, 100},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":40}`, 10, 30, 0, 0}, // Gemini's thoughts
		{`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":"90"}}`, 100, 5, 90, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":90}}`, 100, 5, 90, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":[1]}`, 10, 5, 0, 0},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":7,"cost":"free"}`, 10, 5, 0, 0},
		{`{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":80,"cache_creation_input_tokens":10}`, 100, 5, 80, 0}, // Anthropic
		{`{"input_tokens":100,"output_tokens":5,"input_tokens_details":{"cached_tokens":80},"output_tokens_details":{"reasoning_tokens":2}}`, 100, 5, 80, 2},
		{`{"prompt_tokens":100,"completion_tokens":5,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}`, 100, 5, 64, 0}, // DeepSeek
		{`"none"`, 0, 0, 0, 0},
	} {
		u, ok := readUsage(json.RawMessage(c.raw))
		require.Equal(t, c.prompt+c.completion > 0, ok, c.raw)
		if ok {
			require.Equal(t, agent.Usage{PromptTokens: c.prompt, CompletionTokens: c.completion, TotalTokens: c.prompt + c.completion, CachedTokens: c.cached, ReasoningTokens: c.r}, u, c.raw)
		}
	}
	u, _ := readUsage(json.RawMessage(`{"prompt_tokens":1,"completion_tokens":1,"cost":"0.25"}`))
	require.InDelta(t, 0.25, u.Price, 0)
	u, _ = readUsage(json.RawMessage(`{"prompt_tokens":1,"completion_tokens":1,"cost":1e300}`))
	require.Zero(t, u.Price)
}

// Usage that comes in parts, or as a running total, is joined.
func TestUsageInSeveralChunks(t *testing.T) {
	for name, body := range map[string]string{
		"parts":   events(`{"choices":[],"usage":{"prompt_tokens":10}}`, says("x"), ends("stop"), `{"choices":[],"usage":{"completion_tokens":5}}`, done),
		"running": events(`{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}`, ends("stop"), `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, done),
		"zeros":   events(says("x"), `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, done),
	} {
		o := against(t, sends(body))
		require.NoError(t, o.err, name)
		require.Equal(t, agent.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15, Requests: 1}, o.reply.Usage, name)
	}
}

// What failed on the way leaves what had arrived, for counting, and whether the
// provider worked on it at all.
func TestWhatAFailedReplyLeaves(t *testing.T) {
	half := says("half an ans")
	cut := calls(`{"index":0,"id":"c1","function":{"name":"shell","arguments":"{\"command\":\"rm"}}`)
	for name, c := range map[string]struct {
		body    string
		left    string
		charged bool
		tokens  int64
	}{
		"broken":                    {events(half), "half an ans", true, 0},
		"broken in a call":          {events(half, cut), "half an ans\nshell {\"command\":\"rm", true, 0},
		"error in the stream":       {events(half, `{"error":{"message":"x"}}`), "half an ans", true, 0},
		"error at once":             {events(`{"error":{"message":"slow down","code":429}}`), "", false, 0},
		"filter":                    {events(half, ends("content_filter"), done), "half an ans", true, 0},
		"filter, usage behind":      {events(half, ends("content_filter"), `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}`, done), "half an ans", true, 10},
		"length in a call":          {events(cut, ends("length"), done), "\nshell {\"command\":\"rm", true, 0},
		"length before any text":    {events(`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`, ends("length"), done), "", true, 0},
		"out of resources, usage":   {events(half, `{"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`), "half an ans", true, 10},
		"a web page":                {"<html>", "", false, 0},
		"an empty body":             {"", "", true, 0},
		"an error object with cost": {events(`{"error":{"message":"x"},"usage":{"prompt_tokens":7,"completion_tokens":3}}`), "", true, 10},
	} {
		o := against(t, sends(c.body))
		require.NotEmpty(t, o.failure(t).Code, name)
		require.Equal(t, c.left, o.reply.Content, name)
		require.Equal(t, c.charged, o.reply.Charged, name)
		require.Equal(t, c.tokens, o.reply.Usage.TotalTokens, name)
		require.EqualValues(t, 1, o.reply.Usage.Requests, name)
	}
	for status, charged := range map[int]bool{401: false, 429: false, 500: false, 503: false} {
		o := against(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(status) })
		require.Equal(t, charged, o.reply.Charged, status)
	}
	waits := func(w http.ResponseWriter, r *http.Request, _ []byte) {
		_, _ = fmt.Fprint(w, events(half))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	o := against(t, waits, func(c *Config) { c.IdleTimeout = time.Second })
	require.Equal(t, agent.ModelIdleTimeout, o.failure(t).Code)
	require.Equal(t, "half an ans", o.reply.Content)
	require.True(t, o.reply.Charged)

	s := llmtest.Run(t)
	s.Raw(waits)
	ctx, cancel := context.WithCancel(t.Context())
	m := newModel(t, s)
	reply, err := m.Generate(ctx, hello(true), func(agent.Delta) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "half an ans", reply.Content, "a cancel in mid-stream")
	require.True(t, reply.Charged)

	s.Raw(func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() })
	o = generate(t.Context(), newModel(t, s, func(c *Config) { c.ReplyTimeout = 100 * time.Millisecond }), hello(false))
	require.True(t, o.reply.Charged, "the provider had the request and was left")

	s.Close()
	o = generate(t.Context(), m, hello(true))
	require.Equal(t, agent.ModelUnreachable, o.failure(t).Code)
	require.False(t, o.reply.Charged)
}

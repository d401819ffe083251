package openai

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// Neighbours of A1 to A3 and A15: pieces of calls as servers send them.
func TestFault_A1_PiecesOfCalls(t *testing.T) {
	one := []agent.Call{agent.NewCall("c1", "get_weather", `{"a":1}`)}
	two := []agent.Call{agent.NewCall("c1", "ls", `{"a":1}`), agent.NewCall("c2", "ls", `{"b":2}`)}
	runStreamCases(t, []streamCase{
		{"name in pieces", events(calls(`{"index":0,"id":"c1","function":{"name":"get_"}}`), calls(`{"index":0,"function":{"name":"weather","arguments":"{\"a\":1}"}}`), ends("tool_calls"), done), one},
		{"name in each piece", events(calls(`{"index":0,"id":"c1","function":{"name":"get_weather","arguments":"{\"a\""}}`), calls(`{"index":0,"id":"c1","function":{"name":"get_weather","arguments":":1}"}}`), ends("tool_calls"), done), one},
		{"all of the name so far", events(calls(`{"index":0,"id":"c1","function":{"name":"get_"}}`), calls(`{"index":0,"function":{"name":"get_weather","arguments":"{\"a\":1}"}}`), ends("tool_calls"), done), one},
		{"index from 1", events(calls(`{"index":1,"id":"c1","function":{"name":"ls","arguments":"{\"a\":1}"}}`), calls(`{"index":2,"id":"c2","function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done), two},
		{"index with gaps, as strings", events(calls(`{"index":"3","id":"c1","function":{"name":"ls","arguments":"{\"a\":1}"}}`), calls(`{"index":7.0,"id":"c2","function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done), two},
		{"one index, no ids", events(calls(`{"index":0,"function":{"name":"ls","arguments":"{\"a\":1}"}}`), calls(`{"index":0,"function":{"name":"ls","arguments":"{\"b\":2}"}}`), ends("tool_calls"), done), []agent.Call{agent.NewCall("", "ls", `{"a":1}`), agent.NewCall("", "ls", `{"b":2}`)}},
		{"the whole call again at the end", events(calls(`{"index":0,"id":"c1","function":{"name":"get_weather","arguments":"{\"a\":1}"}}`), `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"get_weather","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]}`, done), one},
		{"in the last chunk", events(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"get_weather","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]}`, done), one},
		{"one that is no list", events(`{"choices":[{"delta":{"tool_calls":{"id":"c1","function":{"name":"get_weather","arguments":"{\"a\":1}"}}}}]}`, ends("tool_calls"), done), one},
		{"objects in pieces", events(calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":{"a":1}}}`), calls(`{"index":0,"function":{"arguments":{"b":2}}}`), ends("tool_calls"), done), []agent.Call{agent.NewCall("c1", "ls", `{"a":1,"b":2}`)}},
		{"an empty object first", events(calls(`{"index":0,"id":"c1","function":{"name":"get_weather","arguments":{}}}`), calls(`{"index":0,"function":{"arguments":{"a":1}}}`), ends("tool_calls"), done), one},
		{"the old form in pieces", events(`{"choices":[{"delta":{"function_call":{"name":"get_weather","arguments":""}}}]}`, `{"choices":[{"delta":{"function_call":{"arguments":"{\"a\""}}}]}`, `{"choices":[{"delta":{"function_call":{"arguments":":1}"}}}]}`, ends("function_call"), done), []agent.Call{agent.NewCall("", "get_weather", `{"a":1}`)}},
		{"escaped characters in halves", events(calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{\"a\":\"\ud83d"}}`), calls(`{"index":0,"function":{"arguments":"\ude00\"}"}}`), ends("tool_calls"), done), []agent.Call{agent.NewCall("c1", "ls", `{"a":"😀"}`)}},
	})
}

// A19: characters that are cut between two events, and other odd bodies.
func TestFault_A19_OddBodies(t *testing.T) {
	zipped := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(s))
		require.NoError(t, z.Close())
		return b.String()
	}
	piece := func(s string) string { return `{"choices":[{"delta":{"content":"` + s + `"}}]}` }
	whole := events(says("héllo 😀"), ends("stop"), done)
	for name, body := range map[string]string{
		"surrogates in two events":  events(piece(`h\u00e9llo \ud83d`), piece(`\ude00`), ends("stop"), done),
		"bytes in three events":     events(piece("h\xc3"), piece("\xa9llo \xf0\x9f"), piece("\x98\x80"), ends("stop"), done),
		"zipped":                    zipped(whole),
		"zipped JSON":               zipped(`{"choices":[{"message":{"content":"héllo 😀"},"finish_reason":"stop"}]}`),
		"garbage behind [DONE]":     whole + "data: {\"error\":{\"message\":\"late\"}}\n\n\x00\xff<html>",
		"two choices":               events(`{"choices":[{"index":0,"delta":{"content":"héllo 😀"}},{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}`, ends("stop"), done),
		"objects as parts":          events(`{"choices":[{"delta":{"content":[{"type":"text","text":"héllo \ud83d"}]}}]}`, `{"choices":[{"delta":{"content":[{"type":"text","text":"\ude00"}]}}]}`, ends("stop"), done),
		"CRLF and comments":         strings.ReplaceAll(": c\n\nevent: message\nid: 1\n"+whole, "\n", "\r\n"),
		"x_groq that is no object":  events(`{"choices":[{"delta":{"content":"héllo 😀"}}],"x_groq":"req_1"}`, ends("stop"), done),
		"pings with a type":         events(`{"type":"ping"}`, says("héllo 😀"), ends("stop"), done),
		"metadata without a choice": events(`{"id":"x","prompt_filter_results":[]}`, says("héllo 😀"), ends("stop"), done),
	} {
		o := against(t, sends(body))
		require.NoError(t, o.err, name)
		require.Equal(t, "héllo 😀", o.reply.Content, name)
		require.Equal(t, "héllo 😀", o.streamed, name)
	}
	o := against(t, sends(events(piece(`x\ud83d`), ends("stop"), done)))
	require.NoError(t, o.err)
	require.Equal(t, "x\uFFFD", o.reply.Content, "half a character")
	require.Equal(t, o.reply.Content, o.streamed)
	e := against(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(zipped(`{"error":{"message":"slow down"}}`)))
	}).failure(t)
	require.Equal(t, "slow down", e.Message)
}

// An HTTP/2 stream that is reset breaks like any other.
func TestFault_A5_HTTP2Reset(t *testing.T) {
	for name, start := range map[string]string{"in the middle": events(says("half")), "at once": ""} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, 2, r.ProtoMajor)
			if start != "" {
				_, _ = fmt.Fprint(w, start)
				_ = http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler)
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		m, err := New(Config{BaseURL: s.URL + "/v1", Model: "m", HTTPClient: s.Client()})
		require.NoError(t, err)
		e := generate(t.Context(), m, hello(true)).failure(t)
		require.True(t, e.Retryable, name)
		require.Empty(t, e.Class, name)
		s.Close()
	}
}

// A certificate that is not valid, and a server without TLS, are told as such and
// not tried for long.
func TestInsecureServers(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for url, todo := range map[string]string{
		s.URL: "its certificate is not trusted here", strings.Replace(plain.URL, "http:", "https:", 1): "write http:// instead of https://",
	} {
		m, err := New(Config{BaseURL: url, Model: "m"})
		require.NoError(t, err)
		e := generate(t.Context(), m, hello(true)).failure(t)
		require.Equal(t, agent.ModelUnreachable, e.Code, "%v", e)
		require.Equal(t, agent.ClassInsecure, e.Class)
		require.Contains(t, e.Final(), "cannot be reached safely")
		require.Contains(t, e.Final(), todo)
	}
}

// A8, A12: errors in forms that have no status or no sense, and their classes.
func TestFault_A8_OddErrors(t *testing.T) {
	for _, c := range []struct {
		body, code, text string
		class            agent.FailureClass
	}{
		{`{"detail":"Not authenticated"}`, agent.ModelAuth, "Not authenticated", ""},
		{`{"detail":[{"loc":["body"],"msg":"extra"}]}`, agent.ModelOverloaded, "extra", agent.ClassUnclear},
		{`{"message":"Please sign in"}`, agent.ModelAuth, "sign in", ""},
		{`{"errors":["no worker"]}`, agent.ModelOverloaded, "no worker", agent.ClassUnclear},
		{`{"error":"something"}`, agent.ModelOverloaded, "something", agent.ClassUnclear},
		{`{"error":{"message":"it broke","type":"server_error"}}`, agent.ModelOverloaded, "it broke", ""},
		{`{"status":"ok","version":3}`, agent.ModelBrokenStream, `{"status":"ok","version":3}`, agent.ClassUnreadable},
		{`[]`, agent.ModelBrokenStream, "a list", agent.ClassUnreadable},
		{events(`{"id":"x","x_groq":{"id":"y","error":"the model stopped early"}}`), agent.ModelOverloaded, "stopped early", agent.ClassUnclear},
		{events(`{"choices":"none"}`), agent.ModelBrokenStream, "unknown form", agent.ClassUnreadable},
		{events(`{"choices":[]}`, done), agent.ModelBrokenStream, `sent {"choices":[]}, which is no reply`, agent.ClassUnreadable},
		{events(ends("malformed_function_call"), done), agent.ModelBadResponse, "malformed", agent.ClassUnreadable},
		{"data: {half\n\n", agent.ModelBrokenStream, "not JSON", agent.ClassUnreadable},
		{events(says("half")), agent.ModelBrokenStream, "before the reply was complete", ""},
	} {
		e := against(t, sends(c.body)).failure(t)
		require.Equal(t, c.code, e.Code, "%s: %v", c.body, e)
		require.Contains(t, e.Message, c.text, c.body)
		require.Equal(t, c.class, e.Class, c.body)
	}
	runStatusCases(t, []statusCase{
		{499, `client closed`, agent.ModelOverloaded, true},
		{501, ``, agent.ModelBadRequest, false},
		{503, "\xEF\xBB\xBF<html><title>503</title></html>", agent.ModelOverloaded, true},
		{520, `<html>`, agent.ModelOverloaded, true},
		{522, `error code: 522`, agent.ModelOverloaded, true},
		{524, `error code: 524`, agent.ModelOverloaded, true},
		{529, ``, agent.ModelOverloaded, true},
		{413, `<html>too large</html>`, agent.ModelContextTooLong, false},
		{302, `<a href="/login">`, agent.ModelBadResponse, false},
	})
}

// A11: where no Retry-After is, other headers and the text tell how long to wait.
func TestFault_A11_WhenALimitIsReset(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		header map[string]string
		text   string
		want   time.Duration
	}{
		"requests":        {map[string]string{"X-RateLimit-Reset-Requests": "1.5s", "X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Tokens": "40s", "X-RateLimit-Remaining-Tokens": "900"}, "", 1500 * time.Millisecond},
		"tokens, Groq":    {map[string]string{"X-RateLimit-Reset-Tokens": "7.66s", "X-RateLimit-Remaining-Tokens": "0"}, "", 7660 * time.Millisecond},
		"milliseconds":    {map[string]string{"X-RateLimit-Reset-Requests": "20ms"}, "", 20 * time.Millisecond},
		"seconds, Azure":  {map[string]string{"X-RateLimit-Reset-Requests": "12"}, "", 12 * time.Second},
		"far away":        {map[string]string{"X-RateLimit-Reset-Requests": "6m0s"}, "", time.Minute},
		"epoch ms":        {map[string]string{"X-RateLimit-Reset": fmt.Sprint(now.Add(9 * time.Second).UnixMilli()), "X-RateLimit-Remaining": "0"}, "", 9 * time.Second},
		"epoch s":         {map[string]string{"X-RateLimit-Reset": fmt.Sprint(now.Add(9 * time.Second).Unix())}, "", 9 * time.Second},
		"date, Anthropic": {map[string]string{"Anthropic-RateLimit-Tokens-Reset": now.Add(8 * time.Second).Format(time.RFC3339)}, "", 8 * time.Second},
		"text, OpenAI":    {nil, "Rate limit reached for gpt-x on tokens per min. Please try again in 1m2.5s. Visit", time.Minute},
		"text, ms":        {nil, "Please try again in 344ms. Visit", 344 * time.Millisecond},
		"text, Gemini":    {nil, "Please retry in 34.074824224s.", 34074824224 * time.Nanosecond},
		"text, seconds":   {nil, "Please retry after 6 seconds.", 6 * time.Second},
		"nonsense":        {map[string]string{"X-RateLimit-Reset-Requests": "soon"}, "try again in a while", 0},
		"nothing":         {nil, "", 0},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		require.Equal(t, c.want, limitReset(h, c.text, now), name)
	}
	e := responseError(&http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"X-Ratelimit-Reset-Requests": {"3s"}, "Retry-After": {"1"}}}, nil)
	require.Equal(t, time.Second, e.RetryAfter, "Retry-After comes first")
	e = responseError(&http.Response{StatusCode: http.StatusInternalServerError, Header: http.Header{"X-Ratelimit-Reset-Requests": {"3s"}}}, nil)
	require.Zero(t, e.RetryAfter, "limits that were not met")
}

// One event has a bound of its own; several megabytes of arguments fit in.
func TestOneEventIsBounded(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	o := against(t, sends(events(calls(`{"index":0,"id":"c1","function":{"name":"write","arguments":"{\"text\":\"`+long+`\"}"}}`), ends("tool_calls"), done)))
	require.NoError(t, o.err)
	require.Len(t, o.reply.Calls[0].Function.Arguments, len(long)+len(`{"text":""}`))
	for name, body := range map[string]string{
		"one line":      "data: " + says(strings.Repeat("x", 9<<20)) + "\n\n",
		"many lines":    "data: {\n" + strings.Repeat("data: \""+long[:1<<16]+"\",\n", 200),
		"no event":      ": " + strings.Repeat("x", 9<<20),
		"without colon": strings.Repeat("x", 9<<20),
	} {
		e := against(t, sends(body)).failure(t)
		require.Equal(t, agent.ModelBadResponse, e.Code, name)
		require.False(t, e.Retryable, name)
		require.Contains(t, e.Message, "one event of the reply is larger than 8388608 bytes", name)
	}
	e := against(t, sends(`{"choices":[{"message":{"content":"`+long+`"}}]}`), func(c *Config) { c.MaxReplyBytes = 1 << 20 }).failure(t)
	require.Contains(t, e.Message, "one reply is larger than 1048576 bytes")
}

// No key reaches an error, be it ours or one that a provider or gateway quotes, and
// not cut in the middle either.
func TestNoErrorShowsAKey(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		secret string
	}{
		{401, "<html><body>Invalid api-key: 8f14e45fceea167a5a36dedd4bea2543</body></html>", "8f14e45f"},
		{401, "Incorrect API key provided: sk-abc...wxyz1. See docs.", "wxyz1"},
		{403, "key 8f14e45fceea167a5a36dedd4bea2543 may not do this", "8f14e45f"},
		{403, "unknown credential Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEy", "Zm9vYmFy"},
		{401, `{"error":{"message":"Bearer gsk_0123456789abcdefghij is unknown"}}`, "0123456789"},
		{400, "GET https://x.example/v1?key=AIzaSyA1234567890abcdefghijklmnopqrstu failed", "AIzaSy"},
		{502, "upstream: x-api-key: topsecret99", "topsecret99"},
		{200, events(`{"error":{"message":"bad key AIzaSyA1234567890abcdefghijklmnopqrstu","code":401}}`), "AIzaSy"},
		{200, `{"detail":"API key q1w2e3r4t5y6u7i8 not found"}`, "q1w2e3r4"},
		{500, strings.Repeat("x", maxErrorMessage-8) + " " + testKey, testKey[:6]},
	} {
		e := against(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.WriteHeader(c.status)
			_, _ = fmt.Fprint(w, c.body)
		}).failure(t)
		require.NotContains(t, e.Error(), c.secret, c.body)
	}
}

package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

// fixed is a transport that answers every request with one body.
type fixed struct {
	status int
	body   io.Reader
}

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f.status, Header: http.Header{}, Body: io.NopCloser(f.body), Request: r}, nil
}

// FuzzStream feeds any bytes to the stream path. Whatever arrives, it does not
// panic, a stream without its end is no success, arguments that were cut make
// no call, what was streamed is what the reply holds, and a strict provider takes
// the next request. The corpus in testdata is kept.
func FuzzStream(f *testing.F) {
	files, err := filepath.Glob("testdata/cases/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatal("no cases: ", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
	}
	f.Add([]byte(events(says("hello"), ends("stop"), done)), false)
	f.Add([]byte(events(calls(`{"index":0,"id":"c","function":{"name":"ls","arguments":"{\"a\""}}`), calls(`{"function":{"arguments":":1}"}}`), ends("tool_calls"))), true)
	f.Add([]byte(events(calls(`{"id":"c","function":{"name":"ls","arguments":"{\"cut"}}`), ends("length"), done)), false)
	f.Add([]byte(": comment\n\nevent: error\ndata: {\"message\":\"x\"}\n\n"), false)
	f.Add([]byte(`{"choices":[{"message":{"content":"x","tool_calls":[{"function":{"name":"a","arguments":{}}}]},"finish_reason":"stop"}],"usage":{"total_tokens":1e3}}`), false)
	f.Add([]byte("<html>"), false)
	f.Add([]byte("data: {\"choices\":[\r\ndata: {\"delta\":{\"content\":[\"a\"]}}]}\r\n\r\ndata:[DONE]"), true)
	f.Fuzz(func(t *testing.T, body []byte, breaks bool) {
		reader := io.Reader(bytes.NewReader(body))
		if breaks {
			reader = io.MultiReader(iotest.OneByteReader(reader), iotest.ErrReader(errors.New("reset")))
		}
		m, err := New(Config{Model: "m", MaxReplyBytes: 1 << 16, HTTPClient: &http.Client{Transport: fixed{http.StatusOK, reader}}})
		if err != nil {
			t.Fatal(err)
		}
		var streamed strings.Builder
		reply, err := m.Generate(context.Background(), hello(true), func(d agent.Delta) { streamed.WriteString(d.Text) })
		if checkFailure(t, reply, err) {
			return
		}
		if !ended(body) {
			t.Fatalf("success %+v from a stream without an end", reply)
		}
		if streamed.String() != reply.Content {
			t.Fatalf("streamed %q, replied %q", streamed.String(), reply.Content)
		}
		checkNext(t, reply)
		if len(reply.Calls) > 0 && !strings.Contains(strings.ToLower(string(body)), "finish") {
			for _, c := range reply.Calls {
				if !json.Valid([]byte(c.Function.Arguments)) {
					t.Fatalf("call with cut arguments %q", c.Function.Arguments)
				}
			}
		}
	})
}

// checkNext checks the request that follows a reply.
func checkNext(t *testing.T, reply agent.ModelReply) {
	t.Helper()
	said := agent.Message{Role: agent.RoleAssistant, Content: agent.Text(reply.Content), Reasoning: reply.Reasoning, ToolCalls: reply.Calls}
	for i := range said.ToolCalls {
		said.ToolCalls[i].ID = fmt.Sprint("call_", i)
	}
	r := hello(true)
	r.Messages = agent.Transcript(append(r.Messages, said, r.Messages[0]))
	body, err := encode("m", QuirksOf("api.deepseek.com", "m"), r)
	if err != nil {
		t.Fatal(err)
	}
	if broken := llmtest.Check(body); len(broken) > 0 {
		t.Fatalf("%q after %+v", broken, reply)
	}
}

// checkFailure checks what is returned whatever comes, and reports whether the call
// failed: a typed error that can be shown, no calls, and usage that adds up.
func checkFailure(t *testing.T, reply agent.ModelReply, err error) bool {
	t.Helper()
	u := reply.Usage
	if u.TotalTokens != u.PromptTokens+u.CompletionTokens || u.PromptTokens < u.CachedTokens || u.CompletionTokens < u.ReasoningTokens ||
		min(u.PromptTokens, u.CompletionTokens, u.CachedTokens, u.ReasoningTokens) < 0 || u.TotalTokens > 10*maxTokens || !(u.Price >= 0 && u.Price <= maxCost) {
		t.Fatalf("usage %+v", u)
	}
	if !utf8.ValidString(reply.Content) || !utf8.ValidString(reply.Reasoning) {
		t.Fatalf("text %q %q is no text", reply.Content, reply.Reasoning)
	}
	for _, c := range reply.Calls {
		if !utf8.ValidString(c.Function.Name + c.Function.Arguments + c.ID) {
			t.Fatalf("call %+v is no text", c)
		}
	}
	if err == nil {
		return false
	}
	e := asModelError(err)
	if e == nil || e.Code == "" || e.Message == "" || len(reply.Calls) > 0 {
		t.Fatalf("untyped error %#v with %+v", err, reply)
	}
	if !utf8.ValidString(e.Message) || len(e.Message) > maxErrorMessage+8 || strings.ContainsAny(e.Message, "\x1b\x00\r") {
		t.Fatalf("message %q", e.Message)
	}
	return true
}

// FuzzAnswer feeds any bytes, with any status, to the path of replies that are not
// streamed and of errors.
func FuzzAnswer(f *testing.F) {
	f.Add(200, []byte(`{"choices":[{"message":{"content":"x","tool_calls":[{"function":{"name":"a","arguments":{}}}]},"finish_reason":"stop"}],"usage":{"total_tokens":1e3}}`))
	f.Add(200, []byte(`{"detail":"Not authenticated"}`))
	f.Add(429, []byte(`[{"error":{"code":429,"message":"a list","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"7s"}]}}]`))
	f.Add(400, []byte(`{"error":{"message":"This model's maximum context length is 8192 tokens.","metadata":{"raw":"{}"}}}`))
	f.Add(401, []byte("<html>Incorrect API key provided: sk-abc123def456. Bearer abcdefgh1234</html>"))
	f.Add(503, []byte("\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		m, err := New(Config{Model: "m", MaxReplyBytes: 1 << 16, HTTPClient: &http.Client{Transport: fixed{status, bytes.NewReader(body)}}})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := m.Generate(context.Background(), hello(false), nil)
		if !checkFailure(t, reply, err) && status > 299 {
			t.Fatalf("HTTP %d is no success", status)
		}
		if e := asModelError(err); e != nil && (e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter) {
			t.Fatalf("wait %v", e.RetryAfter)
		}
	})
}

// ended reports whether a body holds any of the ends that count. Keys match
// without regard to case, and may be escaped.
func ended(body []byte) bool {
	low := strings.ToLower(string(body))
	return strings.Contains(low, "finish_reason") || strings.Contains(low, "[done]") || strings.Contains(low, `\u`) ||
		bytes.ContainsAny(body, "\u017f\u212a") || json.Valid(body)
}

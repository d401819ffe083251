package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spool-agents/spool/agent"
)

// fixed is a transport that answers every request with one body.
type fixed struct{ body io.Reader }

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(f.body), Request: r}, nil
}

// FuzzStream feeds any bytes to the stream path. Whatever arrives, it does not
// panic, a stream without its end is no success, arguments that were cut make
// no call, and what was streamed is what the reply holds. The corpus in
// testdata is kept.
func FuzzStream(f *testing.F) {
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
		m, err := New(Config{Model: "m", MaxReplyBytes: 1 << 16, HTTPClient: &http.Client{Transport: fixed{reader}}})
		if err != nil {
			t.Fatal(err)
		}
		var streamed strings.Builder
		reply, err := m.Generate(context.Background(), hello(true), func(d agent.Delta) { streamed.WriteString(d.Text) })
		if err != nil {
			if e := asModelError(err); e == nil || e.Code == "" || e.Message == "" {
				t.Fatalf("untyped error %#v", err)
			}
			return
		}
		if !ended(body) {
			t.Fatalf("success %+v from a stream without an end", reply)
		}
		if streamed.String() != reply.Content {
			t.Fatalf("streamed %q, replied %q", streamed.String(), reply.Content)
		}
		if len(reply.Calls) > 0 && !strings.Contains(strings.ToLower(string(body)), "finish") {
			for _, c := range reply.Calls {
				if !json.Valid([]byte(c.Function.Arguments)) {
					t.Fatalf("call with cut arguments %q", c.Function.Arguments)
				}
			}
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

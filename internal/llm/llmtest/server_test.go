package llmtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func post(t *testing.T, s *Server, body string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { require.NoError(t, resp.Body.Close()) }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func chat(stream bool, messages ...any) string {
	b, err := json.Marshal(object{"model": "m", "stream": stream, "messages": messages, "stream_options": object{"include_usage": true}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func said(text string) object { return object{"role": "user", "content": text} }

func TestAnswersFromTheScript(t *testing.T) {
	s := Run(t)
	status, body, err := post(t, s, chat(false, said(`script: think hm => call ls {"path":"é"} && ls`)))
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"arguments":"{\"path\":\"é\"}"`)
	require.Contains(t, body, `"reasoning_content":"hm"`)

	status, body, err = post(t, s, chat(true, said("script: say one two")))
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"content":"one "`)
	require.Contains(t, body, `"choices":[]`)
	require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))
	require.Equal(t, 1, s.Asked("script: say one two", 0))
	require.Equal(t, 0, s.Asked("say one two", 1))
	require.Empty(t, s.Violations())
	require.Len(t, s.Records(), 2)
}

func TestFaultsAreCountedPerStep(t *testing.T) {
	s := Run(t)
	q := chat(true, said("script: fail 503 x2 break x2 say one two three four"))
	for range 2 {
		status, _, err := post(t, s, q)
		require.NoError(t, err)
		require.Equal(t, 503, status)
	}
	_, _, err := post(t, s, q)
	require.Error(t, err, "the connection breaks")
	_, body, err := post(t, s, q)
	require.NoError(t, err)
	require.NotContains(t, body, "[DONE]", "the body ends early")
	_, body, err = post(t, s, q)
	require.NoError(t, err)
	require.Contains(t, body, "[DONE]")
	require.Equal(t, 5, s.Asked("one two three four", 0))
}

func TestRawAndOtherPaths(t *testing.T) {
	s := Run(t)
	s.Raw(func(w http.ResponseWriter, _ *http.Request, body []byte) { _, _ = w.Write(bytes.ToUpper(body)) })
	_, body, err := post(t, s, chat(false, said("hi")))
	require.NoError(t, err)
	require.Contains(t, body, `"CONTENT":"HI"`)
	for path, want := range map[string]string{"/models": Model, "/x": "not_found"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Contains(t, string(b), want)
	}
}

func TestCheckFindsViolations(t *testing.T) {
	call := func(id, args string) object {
		return object{"role": "assistant", "content": nil, "tool_calls": []any{
			object{"id": id, "type": "function", "function": object{"name": "ls", "arguments": args}},
		}}
	}
	result := func(id string) object { return object{"role": "tool", "tool_call_id": id, "content": ""} }
	require.Empty(t, Check([]byte(chat(true, said("hi"), call("a", "{}"), result("a")))))
	for name, c := range map[string]struct{ body, want string }{
		"no result":         {chat(true, said("hi"), call("a", "{}"), said("x")), "before the results"},
		"ends with calls":   {chat(true, said("hi"), call("a", "{}")), "ends before the results"},
		"orphan":            {chat(true, said("hi"), result("a")), "without its call"},
		"doubled result":    {chat(true, said("hi"), call("a", "{}"), result("a"), result("a")), "without its call"},
		"empty id":          {chat(true, said("hi"), call("", "{}"), result("")), "empty or used twice"},
		"bad arguments":     {chat(true, said("hi"), call("a", `{"x`), result("a")), "JSON object"},
		"empty arguments":   {chat(true, said("hi"), call("a", ``), result("a")), "JSON object"},
		"empty user":        {chat(true, said(" ")), "no text"},
		"ends on assistant": {chat(true, said("hi"), object{"role": "assistant", "content": "x"}), "ends with an assistant"},
		"no messages":       {chat(true), "messages are missing"},
		"no tool content": {chat(true, said("hi"), call("a", "{}"), object{"role": "tool", "tool_call_id": "a"}),
			"must be a string"},
		"not UTF-8":  {strings.Replace(chat(true, said("hiX")), "X", "\xff", 1), "UTF-8"},
		"not JSON":   {"{", "not a chat request"},
		"tool names": {`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"a:b"}}]}`, "a:b"},
		"arguments object": {`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function",` +
			`"function":{"name":"x","arguments":{}}}]},{"role":"tool","tool_call_id":"a","content":"x"}]}`, "must be a string"},
	} {
		require.Contains(t, strings.Join(Check([]byte(c.body)), "\n"), c.want, name)
	}
	s := Run(t)
	status, _, err := post(t, s, chat(true, said("")))
	require.NoError(t, err)
	require.Equal(t, 400, status)
	require.Len(t, s.Violations(), 1)
}

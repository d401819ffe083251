package openai

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// shared is the body of a streamed answer of testdata/cases.
func shared(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/cases/" + name + ".sse")
	require.NoError(t, err)
	return string(b)
}

// args is a piece of arguments of the call with index 0; more is the rest of its fields.
func args(text, more string) string {
	return calls(`{"index":0,` + more + `"function":{"arguments":` + quoted(text) + `}}`)
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

const named = `"id":"c1","function":{"name":"ls","arguments":`

// Pieces that repeat the earlier ones, and arguments that come again as a whole, are one
// call.
func TestCase_W01_RepeatedPieces(t *testing.T) {
	runStreamCases(t, []streamCase{{"shared", shared(t, "cumulative-arguments"), []agent.Call{agent.NewCall("c1", "file_read", `{"path":"a.txt"}`)}}})
	one := []agent.Call{agent.NewCall("c1", "ls", `{"a":{"a":1}}`)}
	piece := func(head, text string) string { return calls(`{` + head + named + quoted(text) + `}}`) }
	bare := func(text string) string { return args(text, "") }
	for name, pieces := range map[string][]string{
		"growing":               {piece(`"index":0,`, `{"a`), bare(`{"a":{"a"`), bare(`{"a":{"a":1}}`)},
		"growing, two":          {piece(`"index":0,`, `{"a`), bare(`{"a":{"a":1}}`)},
		"growing, then again":   {piece(`"index":0,`, `{"a`), bare(`{"a":{"a"`), bare(`{"a":{"a":1}}`), bare(`{"a":{"a":1}}`)},
		"growing by nothing":    {piece(`"index":0,`, `{"a`), bare(`{"a`), bare(``), bare(`{"a":{"a":1}}`)},
		"growing, named, ids":   {piece(`"index":0,`, `{"a`), piece(`"index":0,`, `{"a":{"a"`), piece(`"index":0,`, `{"a":{"a":1}}`)},
		"growing, no index":     {piece(``, `{"a`), piece(``, `{"a":{"a"`), piece(``, `{"a":{"a":1}}`), piece(``, `{"a":{"a":1}}`)},
		"not growing":           {piece(`"index":0,`, `{"a":`), bare(`{"a":1}}`)},
		"again at the end":      {piece(`"index":0,`, `{"a":`), bare(`{"a":`), bare(`1}}`), bare(`{"a":{"a":1}}`)},
		"again, other blanks":   {piece(`"index":0,`, `{"a":`), bare(`{"a":`), bare(`1}}`), bare(`{ "a": {"a": 1} }`)},
		"again, named":          {piece(`"index":0,`, `{"a":{"a":`), bare(`1}}`), piece(`"index":0,`, `{"a":{"a":1}}`)},
		"again, all else":       {piece(``, `{"a":{"a":1}}`), piece(``, `{ "a": {"a": 1} }`)},
		"again, without id":     {calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{\"a\":{\"a\":1}}"}}`), calls(`{"index":0,"function":{"name":"ls","arguments":"{ \"a\":{\"a\":1} }"}}`)},
		"again, no index":       {piece(``, `{"a":{"a":1`), piece(``, `}}`), piece(``, `{"a":{"a":1}}`)},
		"a place held":          {piece(`"index":0,`, `{}`), bare(`{"a":{"a"`), bare(`:1}}`)},
		"whole message again":   {piece(`"index":0,`, `{"a":`), bare(`{"a":1}}`), `{"choices":[{"message":{"tool_calls":[{` + named + `"{\"a\":{\"a\":1}}"}}]}}]}`},
		"encoded twice, pieces": {piece(`"index":0,`, `"{\"a\":{`), bare(`\"a\":1}}"`)},
		"with an empty call":    {piece(`"index":0,`, `{"a":{"a":1}}`), calls(`{"index":1,"id":"","function":{"name":"","arguments":""}}`)},
	} {
		runStreamCases(t, []streamCase{{name, events(append(pieces, ends("tool_calls"), done)...), one}})
		runStreamCases(t, []streamCase{{name + ", no reason", events(append(pieces, done)...), one}})
	}
	o := against(t, sends(events(says("hi"), `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, done)))
	require.NoError(t, o.err)
	require.Equal(t, "hi", o.reply.Content)

	// A long file in growing pieces is no long reply.
	var pieces []string
	text := `{"a":"` + strings.Repeat("line ", 2000) + `"}`
	for end := 5; end < len(text); end += 5 {
		pieces = append(pieces, bare(text[:end]))
	}
	o = against(t, sends(events(append(append([]string{piece(`"index":0,`, "")}, pieces...), bare(text), ends("tool_calls"), done)...)))
	require.NoError(t, o.err)
	require.Equal(t, []agent.Call{agent.NewCall("c1", "ls", text)}, o.reply.Calls)
}

// Calls whose pieces all have index 0, or none, are told apart by their ids, also when
// they alternate.
func TestCase_W01_CallsToldApartByID(t *testing.T) {
	two := []agent.Call{agent.NewCall("c1", "ls", `{"a":1}`), agent.NewCall("c2", "ls", `{"b":2}`)}
	piece := func(head, id, name, text string) string {
		return calls(`{` + head + `"id":"` + id + `","function":{"name":"` + name + `","arguments":` + quoted(text) + `}}`)
	}
	for _, head := range []string{`"index":0,`, `"index":"0",`, `"index":null,`, ``} {
		for _, again := range []string{"ls", ""} {
			runStreamCases(t, []streamCase{{
				head + again, events(piece(head, "c1", "ls", `{"a"`), piece(head, "c2", "ls", `{"b"`), piece(head, "c1", again, `:1}`), piece(head, "c2", again, `:2}`), ends("tool_calls"), done), two,
			}})
		}
	}
}

// The shared inputs whose arguments nearly are JSON come out as JSON.
func TestCase_W04_W07_SharedArguments(t *testing.T) {
	for name, want := range map[string]string{
		"raw-newline-in-arguments": `{"path":"w.txt","content":"one\u000atwo"}`,
		"lone-surrogate-arguments": "{\"path\":\"s.txt\",\"content\":\"x \uFFFD y\"}",
		"string-number":            `{"path":"a.txt","limit":"10"}`, // its tool's schema tells
	} {
		o := against(t, sends(shared(t, name)))
		require.NoError(t, o.err, name)
		require.Equal(t, want, o.reply.Calls[0].Function.Arguments, name)
	}
}

// What a proxy sends in place of a reply is tried again, a few times; the text says what
// came.
func TestCase_W16_AnswersOfProxies(t *testing.T) {
	for body, want := range map[string]string{
		"":                                       "empty reply",
		" \r\n":                                  "empty reply",
		"\xEF\xBB\xBF":                           "empty reply",
		": hi\n\n":                               "without an answer",
		"data: [DONE]\n\n":                       "without an answer",
		"upstream connect error":                 "upstream connect error",
		"OK\n":                                   "sent OK, which",
		"no healthy upstream\nreset: overflow\n": "no healthy upstream",
		`<!DOCTYPE html><html><head><title>Sign in</title><style>p{}</style><script>var x = "<p>";</script></head><body><p>Hotel&nbsp;WiFi &amp; more`: "a web page: Sign in Hotel WiFi & more",
		`<?xml version="1.0"?><Error><Message>Denied</Message></Error>`:                                                                                "Denied",
		"\n\n <html></html>":                    "a web page: without text",
		`{"status":"ok"}`:                       `{"status":"ok"}`,
		`{}`:                                    `{}`,
		`null`:                                  "null",
		`"maintenance"`:                         "maintenance",
		`{"error":"bad gateway"}`:               "bad gateway",
		`{"error":{"message":"upstream gone"}}`: "upstream gone",
		`{"message":"no Route matched"}`:        "no Route matched",
	} {
		o := against(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = fmt.Fprint(w, body) })
		e := o.failure(t)
		require.True(t, e.Retryable, body)
		require.Contains(t, []agent.FailureClass{agent.ClassUnreadable, agent.ClassUnclear}, e.Class, body)
		require.Contains(t, e.Message, want, body)
	}
}

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
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// streamOf is the body of a streamed answer that a real server gave.
func streamOf(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../llm/openai/testdata/cases/" + name + ".sse")
	require.NoError(t, err)
	return string(b)
}

// callOf is a streamed answer that makes one call.
func callOf(name, args string) string {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return event(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"`+name+`","arguments":`+string(text)+`}}]}`, `"tool_calls"`) + "data: [DONE]\n\n"
}

var doneAnswer = event(`{"content":"done"}`, `"stop"`) + "data: [DONE]\n\n"

// handed is what the model was shown of its last call in its last request.
func handed(t *testing.T, s *tt.Stack) (call agent.Call, result string) {
	t.Helper()
	records := s.Model.Records()
	var q struct{ Messages []agent.Message }
	require.NoError(t, json.Unmarshal(records[len(records)-1].Body, &q))
	for _, m := range q.Messages {
		for _, c := range m.ToolCalls {
			call = c
		}
		if m.Role == agent.RoleTool {
			result = m.Content.String()
		}
	}
	return call, result
}

// Each answer of a real server makes the call that the model meant, and leaves a
// conversation that a strict provider takes.
func TestCase_W01_W04_W05_W07_EndToEnd(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	template(t, s, "orchestrator", "approval:\n  file_write: auto\n", "Test.")
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "a.txt"), []byte("hello from a\n"), 0o600))
	w := s.StartWorker()
	for i, c := range []struct{ body, args, result, file, content string }{
		{streamOf(t, "cumulative-arguments"), `{"path":"a.txt"}`, "hello from a", "", ""},
		{streamOf(t, "raw-newline-in-arguments"), `{"path":"w.txt","content":"one\ntwo"}`, "", "w.txt", "one\ntwo"},
		{streamOf(t, "string-number"), `{"path":"a.txt","limit":10}`, "hello from a", "", ""},
		{streamOf(t, "lone-surrogate-arguments"), `{"path":"s.txt","content":"x ` + "\uFFFD" + ` y"}`, "", "s.txt", "x \uFFFD y"},
		{callOf("file_write", "```json\n{'path':'q.txt','content':'it\\'s',}\n```"), `{"path":"q.txt","content":"it's"}`, "", "q.txt", "it's"},
		{callOf("file_read", `"{\"path\":\"a.txt\",\"offset\":null}"`), `{"path":"a.txt"}`, "hello from a", "", ""},
		{callOf("functions.file_read", `{"path":"a.txt"}`), `{"path":"a.txt"}`, "hello from a", "", ""},
		{callOf("file_read", `{"path":"a.txt"`), "", "The arguments of file_read are not valid JSON: syntax error at character 16 near", "", ""},
		{callOf("file_read", `{"path":"a.txt","limit":1e999}`), "", "this number is larger than JSON parsers take", "", ""},
		{callOf("file_write", `{"path":"d.txt","content":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}`), "", "nested more than 64 deep", "", ""},
		{callOf("file_read", `{"path":"a.txt","limit":"ten"}`), `{"path":"a.txt","limit":"ten"}`, "limit: got string, want integer", "", ""},
		{callOf("assign_task", `{"agent":"general", "task":}`), "", "The arguments of assign_task are not valid JSON: syntax error at character 28 near \"}\"", "", ""},
		{callOf("ask_user", `{"question":"why`), "", "The arguments of ask_user are not valid JSON", "", ""},
		{callOf("", `{"path":"a.txt"}`), `{"path":"a.txt"}`, "The call names no tool", "", ""},
	} {
		s.Model.Raw(answers(c.body, doneAnswer))
		r := s.Ask("s1", fmt.Sprintf("case %d", i))
		require.Equal(t, "done", r.Response, "%s %s", c.body, r.Error)
		call, result := handed(t, s)
		require.Contains(t, result, c.result, c.body)
		if c.args != "" {
			require.JSONEq(t, c.args, call.Function.Arguments)
		} else {
			require.Contains(t, call.Function.Arguments, "invalid_arguments")
			require.NoError(t, llmtest.Strict(string(callsOf(t, s, r.ThreadID)[i].Args)))
		}
		if c.file != "" {
			b, err := os.ReadFile(filepath.Join(s.Work, c.file))
			require.NoError(t, err)
			require.Equal(t, c.content, string(b))
		}
	}
	require.Empty(t, s.Model.Violations())
	shown, code := starter(t, s, "show", s.Thread("s1"))
	require.Zero(t, code)
	require.Contains(t, shown, "a.txt")

	// What was stored before, when such arguments were kept as they were.
	w.Stop()
	_, err := openRaw(t, s).Exec(`UPDATE messages SET body = replace(body, '\"content\":\"x ` + "\uFFFD" + ` y\"', '\"content\":\"x \\ud99c \\u0000\",\"n\":1e999')`)
	require.NoError(t, err)
	_, err = openRaw(t, s).Exec(`UPDATE tool_calls SET args = replace(args, '"content":"x ` + "\uFFFD" + ` y"', '"content":"x \ud99c \u0000","n":1e999')`)
	require.NoError(t, err)
	s.Model.Raw(nil)
	s.StartWorker()
	require.Equal(t, "goes on", s.Ask("s1", "script: say goes on").Response)
	records := s.Model.Records()
	require.Contains(t, string(records[len(records)-1].Body), `x \\\\ud99c`, "what was stored is shown, in a text")
	require.Empty(t, s.Model.Violations())
}

// An answer for a schema is found behind reasoning and in a sentence with a fence; what
// stands around it is kept apart.
func TestCase_W11_EndToEnd(t *testing.T) {
	s := begin(t)
	ask := func(session, body string) spool.Reply {
		s.Model.Reset()
		s.Model.Raw(answers(body))
		m := s.Message(session, "x")
		m.AnswerSchema = json.RawMessage(`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`)
		sent := send(t, s, m)
		return s.Wait(sent)
	}
	for i, c := range []struct{ body, around string }{
		{streamOf(t, "think-then-json"), `let me see {"b":2}`},
		{event(`{"content":"Here you are:\n`+"```json"+`\n{\"a\":1}\n`+"```"+`\nAnything else?"}`, `"stop"`), "Here you are:\nAnything else?"},
		{event(`{"reasoning_content":"hm","content":"so: {'a': 1,}"}`, `"stop"`), "hm\nso:"},
	} {
		r := ask(fmt.Sprintf("s%d", i), c.body)
		require.JSONEq(t, `{"a":1}`, r.Response, r.Error)
		require.Len(t, s.Model.Records(), 1)
		require.Equal(t, c.around, messages(t, s, r.ThreadID)[1].Reasoning)
	}
	r := ask("two", event(`{"content":"{\"a\":1} or {\"a\":2}"}`, `"stop"`))
	require.Equal(t, agent.ModelAnswerInvalid, r.ErrorCode, "two answers are none")
	require.Contains(t, r.Error, "several JSON values")
	r = ask("harm", event(`{"content":"{\"a\":1,\"b\":\"\\ud99c\"}"}`, `"stop"`))
	require.Equal(t, agent.ModelAnswerInvalid, r.ErrorCode)
}

// A tool call that comes as text, as a server without a parser for it sends it, is told.
func TestCase_W13_EndToEnd(t *testing.T) {
	s := begin(t)
	said := func(session, text string) string {
		content, err := json.Marshal(text)
		require.NoError(t, err)
		s.Model.Raw(answers(event(`{"content":`+string(content)+`}`, `"stop"`)))
		_, progress, code := starterApart(t, s, "send", "-s", s.Session(session), "anything")
		require.Zero(t, code, progress)
		return progress
	}
	s.Model.Raw(answers(streamOf(t, "tool-call-as-text")))
	out, progress, code := starterApart(t, s, "send", "-s", s.Session("s0"), "anything")
	require.Zero(t, code, progress)
	require.Contains(t, out, "<tool_call>")
	require.Contains(t, progress, "! the model wrote a call of file_read as text, so nothing was run: its server does not read the tool calls of this model; start it with its parser")
	require.Equal(t, []string{agent.WarnCallAsText}, warnings(t, s, s.Thread("s0")))
	for i, text := range []string{
		`{"name": "file_read", "arguments": {"path": "a.txt"}}`, "```json\n{\"name\":\"shell\",\"parameters\":{}}\n```", `[TOOL_CALLS][{"name":"grep"}]`, `[TOOL_CALLS]grep{"pattern":"x"}`,
		"<function=ls>{}</function>", `<|python_tag|>{"name":"ls"}`, "<tool_call>ls\n<arg_key>path</arg_key>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>glob\n", `<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:0`,
	} {
		require.Contains(t, said(fmt.Sprintf("a%d", i), text), "as text, so nothing was run", text)
	}
	for i, text := range []string{"I read the file with file_read.", `{"name":"Ann","arguments":[]}`, "a <tool_call> is how some models write it", "[1] ls", "use <function> and shell"} {
		require.NotContains(t, said(fmt.Sprintf("b%d", i), text), "as text", text)
	}
}

// What a proxy or a captive portal sends with status 200 is tried again, three times in a
// row at most; then the text says what came.
func TestCase_W16_EndToEnd(t *testing.T) {
	s := begin(t)
	page := "<!DOCTYPE html><html><head><title>Guest WiFi</title></head><body>Please sign in</body></html>"
	for i, c := range []struct{ body, text string }{
		{page, "gave an answer that cannot be read: the answer is a web page: Guest WiFi Please sign in; so it was 3 times in a row. To do: check OPENAI_BASE_URL"},
		{"", "the provider sent an empty reply; so it was 3 times in a row"},
		{"upstream request timeout", "the provider sent upstream request timeout, which is no reply"},
		{`{"error":"bad gateway"}`, "bad gateway; so it was 3 times in a row"},
	} {
		s.Model.Reset()
		s.Model.Raw(answers(c.body))
		r := s.Ask(fmt.Sprintf("s%d", i), "anything")
		require.Equal(t, "failed", r.Status)
		require.Contains(t, r.Error, c.text)
		require.Len(t, s.Model.Records(), 3)
		s.Model.Raw(answers(c.body, c.body, doneAnswer))
		r = s.Ask(fmt.Sprintf("s%d", i), "again")
		require.Equal(t, "done", r.Response, r.Error)
	}
	s.Model.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "\n\n"+page)
	})
	out, progress, code := starterApart(t, s, "send", "-s", s.Session("s9"), "anything")
	require.Equal(t, 1, code, out)
	require.Contains(t, progress, "Guest WiFi Please sign in")
}

package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

// harm is text with what parsers and providers stumble over.
var harm = rapid.Custom(func(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{
			`\ud99c`, `\udc00`, `\ud83d\ude00`, `\u0000`, "\x00", "\xff", "\xed\xa0\x80", "\xc3", "\n", "\t", `\`, `"`, `'`, `\"`, `{`, `}`, `[`, `]`, `,`, `:`, `1e999`, `-`, `12345678901234567890`,
			`"a":`, `"a":1,`, `{"a":1}`, `null`, `True`, "```", `{'a':'b'}`, "<think>", "</think>", "\uFEFF", "\u2028", strings.Repeat("[", 70), strings.Repeat(`{"a":`, 2000),
		}),
		rapid.String(),
	), 0, 6).Draw(t, "parts"), "")
})

// object is harm within an object, so that more of it is read.
var object = rapid.OneOf(harm, rapid.Map(harm, func(s string) string { return `{"a":"` + s + `"}` }), rapid.Map(harm, func(s string) string { return `{"a":` + s + `}` }))

// streamed is a reply in pieces, with calls whose arguments are cut anywhere, repeated,
// or come as any JSON.
func streamed(t *rapid.T) string {
	chunks := []string{rawly(`"content":`, harm.Draw(t, "content")), rawly(`"reasoning_content":`, harm.Draw(t, "reasoning"))}
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		args := object.Draw(t, "arguments")
		head := fmt.Sprintf(`{"index":%d,"id":"c%d","function":{"name":%s,"arguments":`, i, i, raw(harm.Draw(t, "name")))
		cut := rapid.IntRange(0, len(args)).Draw(t, "cut")
		again := ""
		if rapid.Bool().Draw(t, "growing") {
			again = args[:cut]
		}
		chunks = append(chunks, calls(head+raw(args[:cut])+`}}`), calls(fmt.Sprintf(`{"index":%d,"function":{"arguments":%s},"extra_content":%s}`, i, raw(again+args[cut:]), raw(harm.Draw(t, "extra")))))
	}
	return events(append(chunks, ends("tool_calls"), done)...)
}

// raw is a JSON string whose escapes are those of s.
func raw(s string) string {
	text := strings.NewReplacer(`"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`, "\x00", `\u0000`).Replace(s)
	if !json.Valid([]byte(`"` + text + `"`)) {
		b, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	return `"` + text + `"`
}

func rawly(field, s string) string {
	return `{"choices":[{"index":0,"delta":{` + field + raw(s) + `}}]}`
}

// Whatever a model sends, and whatever stands in a store from before, every later
// request is one that a strict provider takes.
func TestCase_W07_EveryLaterRequestIsStrictlyValid(t *testing.T) {
	hosts := []string{"api.openai.com", "api.mistral.ai", "api.deepseek.com", "generativelanguage.googleapis.com", "localhost"}
	rapid.Check(t, func(t *rapid.T) {
		r := agent.ModelRequest{Messages: []agent.Message{{Role: agent.RoleSystem, Content: agent.Text("s")}, {Role: agent.RoleUser, Content: agent.Text("u" + harm.Draw(t, "user"))}}}
		r.Tools = []agent.ToolSpec{{Name: "ls", Description: harm.Draw(t, "description"), Schema: json.RawMessage(object.Draw(t, "schema"))}}
		r.AnswerSchema = json.RawMessage(object.Draw(t, "answer schema"))
		reply := agent.ModelReply{Content: harm.Draw(t, "old content"), Reasoning: harm.Draw(t, "old reasoning"), Calls: []agent.Call{agent.NewCall("x", harm.Draw(t, "old name"), object.Draw(t, "old arguments"))}}
		reply.Calls[0].Extra = json.RawMessage(object.Draw(t, "old extra"))
		if rapid.Bool().Draw(t, "new") {
			body := strings.NewReader(streamed(t))
			m, err := New(Config{Model: "m", HTTPClient: &http.Client{Transport: fixed{http.StatusOK, body}}})
			if err != nil {
				t.Fatal(err)
			}
			if reply, err = m.Generate(t.Context(), hello(true), func(agent.Delta) {}); err != nil {
				return // nothing is stored
			}
		}
		said := agent.Message{Role: agent.RoleAssistant, Content: agent.Text(reply.Content), Reasoning: reply.Reasoning, ToolCalls: reply.Calls}
		var results []agent.Message
		for i := range said.ToolCalls {
			said.ToolCalls[i].ID = fmt.Sprintf("call_%d", i) + harm.Draw(t, "id") // as imports have them
			results = append(results, agent.Message{Role: agent.RoleTool, ToolCallID: said.ToolCalls[i].ID, Content: agent.Text(harm.Draw(t, "result"))})
		}
		next := agent.Message{Role: agent.RoleUser, Content: agent.Content{Parts: []agent.Part{{Type: "text", Text: "p" + harm.Draw(t, "part")}}}}
		r.Messages = append(r.Messages[:1:1], agent.Transcript(append(append([]agent.Message{r.Messages[1], said}, results...), next))...)
		body, err := encode("m", QuirksOf(rapid.SampledFrom(hosts).Draw(t, "host"), "m"), r)
		if err != nil {
			t.Fatal(err)
		}
		if broken := llmtest.Check(body); len(broken) > 0 {
			t.Fatalf("%q\n%s", broken, bytes.ToValidUTF8(body, []byte("?")))
		}
	})
}

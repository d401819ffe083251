package archive_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/verify"
)

// places lists the ways to all single values of a document.
func places(v any, at []any) (out [][]any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			out = append(out, places(e, append(at[:len(at):len(at)], k))...)
		}
	case []any:
		for i, e := range v {
			out = append(out, places(e, append(at[:len(at):len(at)], i))...)
		}
	default:
		return [][]any{at}
	}
	return out
}

// change edits one value of a document in place.
func change(doc any, at []any) {
	for _, step := range at[:len(at)-1] {
		doc = child(doc, step)
	}
	last := at[len(at)-1]
	var by any
	switch old := child(doc, last).(type) {
	case string:
		by = old + "x"
	case float64:
		by = old + 1
	case bool:
		by = !old
	default:
		by = "x"
	}
	if m, ok := doc.(map[string]any); ok {
		m[last.(string)] = by
	} else {
		doc.([]any)[last.(int)] = by
	}
}

func child(doc, step any) any {
	if m, ok := doc.(map[string]any); ok {
		return m[step.(string)]
	}
	return doc.([]any)[step.(int)]
}

// raw are words of databases and programs, which say nothing to a person.
var raw = regexp.MustCompile(`(?i)sqlite|sql:|constraint|datatype|SQLSTATE|unmarshal|converting|goroutine`)

// Whatever value of an export is edited: it imports only if the store is sound then, and
// a refusal is in words.
func TestCase_S03_S05_EditedExports(t *testing.T) {
	a := store(t, memorytest.NewClock())
	sub := answer(t, a, send(t, a, user, "s1", "default", "hello"), "general")
	f := folder(t)
	_, err := archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{})
	ok(t, err)
	main, err := f.Path(mainSession("s1"))
	ok(t, err)
	child, err := f.Path(subAgent(strings.TrimPrefix(sub, "agent:general:"), "s1/default", "s1/default"))
	ok(t, err)
	for _, path := range []string{main, child} {
		whole, err := os.ReadFile(path)
		ok(t, err)
		var doc any
		ok(t, json.Unmarshal(whole, &doc))
		all := places(doc, nil)
		slices.SortFunc(all, func(a, b []any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for i := 0; i < len(all); i += 5 {
			at := all[i]
			var edited any
			ok(t, json.Unmarshal(whole, &edited))
			change(edited, at)
			text, err := json.Marshal(edited)
			ok(t, err)
			ok(t, os.WriteFile(path, text, 0o600))
			s := store(t, memorytest.NewClock())
			in, err := archive.Import(t.Context(), s, f, owner, "")
			ok(t, err)
			for _, r := range in.Refused {
				if raw.MatchString(r.Error()) {
					t.Errorf("%v: %s", at, r.Error())
				}
			}
			report, err := verify.Check(t.Context(), s, verify.Options{})
			ok(t, err)
			for _, v := range report.Violations {
				t.Errorf("%v imports, but %s", at, v)
			}
			ok(t, s.Close())
		}
		ok(t, os.WriteFile(path, whole, 0o600))
	}
}

// Parts of other programs become what they are here, or are refused in words.
func TestCase_S04_PartsOfOtherPrograms(t *testing.T) {
	import1 := func(messages string) ([]agent.Message, archive.Imported) {
		t.Helper()
		s, f := store(t, memorytest.NewClock()), folder(t)
		write(t, f.Dir, "session_other.json", "\ufeff"+`{"id":"other","workdir":"/w",`+"\r\n"+`"messages":`+messages+`}`)
		in, err := archive.Import(t.Context(), s, f, owner, "")
		ok(t, err)
		memorytest.Sound(t, s)
		list, err := s.Messages(t.Context(), "other/default", 0, 0)
		if len(in.Added) > 0 {
			ok(t, err)
		}
		return list, in
	}
	list, in := import1(`[{"role":"user","content":[{"type":"input_text","text":"what is there?"}]},
		{"role":"assistant","reasoning_content":"hm","content":[{"type":"output_text","text":"\"reasoning_content\": let me see"}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"a.txt"},{"role":"assistant","content":"a file"}]`)
	same(t, "refused", in.Refused, []archive.Refused{})
	same(t, "messages", fmt.Sprint(len(list), list[0].Content.String(), list[1].Reasoning, list[1].Content.String()), fmt.Sprint(4, "what is there?", "hm", `"reasoning_content": let me see`))
	list, in = import1(`[{"role":"tool","tool_call_id":"c9","content":"nobody asked"},{"role":"assistant","content":"hi"}]`)
	same(t, "a result without a call", fmt.Sprint(list[0].Role, in.Dropped), "assistant[{other/default 1 results of tools that no call before them made: they are texts of the assistant now}]")
	for file, want := range map[string]string{
		`[]`:                                "it must be an object or text, not array",
		`{"id":"a","messages":{}}`:          "messages must be an array, not object",
		`{"id":"a","messages":[7]}`:         "messages must be an object or text, not number",
		`{"id":7,"messages":[]}`:            "id must be text, not number",
		`{"id":"a","tokens":"x"}`:           "tokens must be a number",
		`{"id":"a","tokens":{"total":"x"}}`: "total must be a whole number, not string",
		`{"id":"a","tokens":{"total":-5}}`:  "tokens is less than 0",
		`{"id":"a","tokens":-5}`:            "tokens is less than 0",
		`{"id":"other","messages":[{"role":"user","content":"x","usage":{"totalTokens":-5}}]}`: "less than 0 tokens",
	} {
		s, f := store(t, memorytest.NewClock()), folder(t)
		write(t, f.Dir, "session_other.json", file)
		in, err := archive.Import(t.Context(), s, f, owner, "")
		ok(t, err)
		if len(in.Refused) != 1 || !strings.Contains(in.Refused[0].Error(), want) {
			t.Errorf("%s: %+v", file, in)
		}
	}
	f := folder(t)
	_, err := archive.Import(t.Context(), store(t, memorytest.NewClock()), f, owner, "")
	same(t, "no folder", agent.CodeOf(err), agent.CodeNotFound)
	write(t, f.Dir, "a.json", "{}")
	f.Dir += "/a.json"
	_, err = archive.Import(t.Context(), store(t, memorytest.NewClock()), f, owner, "")
	if err == nil || !strings.Contains(err.Error(), "a.json is a file: name the folder") {
		t.Error(err)
	}
	for part, want := range map[string]string{
		`{"type":"input_audio","input_audio":{"data":"AAAA"}}`:                               `"input_audio"`,
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`: `"image"`,
		`{"type":"file","file":{"file_id":"x"}}`:                                             `"file"`,
		`{"type":"document","source":{}}`:                                                    `"document"`,
		`{"type":"image_url"}`:                                                               `"image_url"`,
		`{"type":"thinking","thinking":"hm","signature":"x"}`:                                `"thinking"`,
		`{"type":"reasoning","text":"hm"}`:                                                   `"reasoning"`,
		`{"type":"tool_use","id":"c1","name":"ls","input":{}}`:                               `"tool_use"`,
		`{"type":"tool_result","tool_use_id":"c1","content":"x"}`:                            `"tool_result"`,
	} {
		_, in := import1(`[{"role":"user","content":[{"type":"text","text":"see"},` + part + `]}]`)
		if len(in.Refused) != 1 || !strings.Contains(in.Refused[0].Error(), "message 1") || !strings.Contains(in.Refused[0].Error(), want) {
			t.Errorf("%s: %+v", part, in)
		}
	}
}

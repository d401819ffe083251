package agent_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

// Slips that can mean one thing only are taken.
func TestCase_W04_SlipsThatAreTaken(t *testing.T) {
	for in, want := range map[string]string{
		``: `{}`, " \n": `{}`, `null`: `{}`, `""`: `{}`, `"{}"`: `{}`, `{}`: `{}`, `None`: `{}`,
		"{\"a\":\"one\ntwo\tthree\rfour\u0001\"}": `{"a":"one\ntwo\tthree\rfour\u0001"}`, "{\"a\n\":1}": `{"a\n":1}`,
		`{"a":1,}`: `{"a":1}`, `{"a":[1,2,],"b":{"c":1, } , }`: `{"a":[1,2],"b":{"c":1}}`,
		`"{\"a\":\"b\\n\"}"`: `{"a":"b\n"}`, `"\"{\\\"a\\\":1}\""`: `{"a":1}`, `"{'a':1,}"`: `{"a":1}`,
		"```json\n{\"a\":1}\n```": `{"a":1}`, "```json{\"a\":1}```": `{"a":1}`, "```\n{\"a\":\"```\"}```": "{\"a\":\"```\"}", "\uFEFF {\"a\":1}": `{"a":1}`,
		`{'a':'it is "so"','b':"it's"}`: `{"a":"it is \"so\"","b":"it's"}`, `{'a':'it\'s'}`: `{"a":"it's"}`, `{"a":"it\'s"}`: `{"a":"it's"}`,
		`{a:1,b_2:{$c:[]}}`: `{"a":1,"b_2":{"$c":[]}}`, `{"a":True,"b":[False,None]}`: `{"a":true,"b":[false,null]}`,
		`{"a":1}}`: `{"a":1}`, `{"a":[1]}]} `: `{"a":[1]}`, `{"a":1}{"a":1}`: `{"a":1}`, `{"a":1} { "a" : 1 }`: `{"a":1}`, `{}{"a":1}{}`: `{"a":1}`,
	} {
		got, err := agent.ReadArguments(in)
		require.NoError(t, err, in)
		require.JSONEq(t, want, got, in)
		require.NoError(t, llmtest.Strict(got), in)
	}
}

// What is in order is not touched, digits of large numbers and blanks included.
func TestCase_W04_WhatIsInOrderStays(t *testing.T) {
	for _, args := range []string{
		`{ "b" : 1,  "a":[ ] }`, `{"n":12345678901234567890123,"f":0.1000,"e":1E+2}`, `{"a":"é\u00e9\ud83d\ude00\/ 😀 \u2028"}`, `{"a":"True, it's {'x':1,}"}`,
		`{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
	} {
		got, err := agent.ReadArguments(args)
		require.NoError(t, err)
		require.Equal(t, args, got)
	}
}

// What may mean several things, or was cut, is an error that says what and where.
func TestCase_W04_TheReasonIsTold(t *testing.T) {
	for in, want := range map[string]string{
		`{"path":"é", "x" 1}`: `not valid JSON: syntax error at character 18 near "1}": a colon is missing`,
		`{"a":1 "b":2}`:       `character 8 near "\"b\":2}": a comma or } is missing`,
		`{"a":"b`:             `character 6 near "\"b": the text that begins here does not end`,
		`{"a":1`:              `character 7 near "{\"a\":1": it ends too early`,
		`{"a":`:               "it ends too early", `{`: "it ends too early", `{"a":[`: "it ends too early", `{"a":[1,`: "it ends too early", `{"a`: "does not end", `{'a'`: "a colon is missing", `{"a":tru`: "no value begins like this",
		`{"a":"\d+"}`: `character 7 near "\\d+\"}": this escape is unknown; a backslash is written \\`, `{"a":"\u12"}`: "this escape is unknown",
		`{"a":'it's'}`: `character 10 near "s'}": a comma or } is missing`, `{'a':'x', 'b', 'c'}`: "a colon is missing",
		`{"a":1}{"a":2}`: `character 8 near "{\"a\":2}": a second value follows`, `{"a":1} x`: "no value begins like this", `{"a":1} see {"b":2}`: "no value begins like this",
		`{"a":1e999}`: `character 6 near "1e999}": this number is larger than`, `{"a":-1e400}`: "larger than", `{"a":` + strings.Repeat("9", 400) + `}`: "larger than",
		`{"a":01}`: "no JSON number", `{"a":1.}`: "no JSON number", `{"a":.5}`: "no value begins", `{"a":+1}`: "no value begins", `{"a":NaN}`: "no value begins", `{"a":-Infinity}`: "no JSON number", `{"a":undefined}`: "no value begins",
		`{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`: "nested more than 64 deep", strings.Repeat("{\"a\":", 2000): "nested more than 64 deep",
		`{"a":1, // why` + "\n" + `"b":2}`: "a key in double quotes is missing", `{,}`: "a key in double quotes is missing", `{"a":,}`: "no value begins", `{"a":1,,}`: "a key", `{“a”:1}`: "a key in double quotes is missing",
		`[]`: "must be a JSON object, not []", `[{"a":1}]`: `must be a JSON object, not [{"a":1}]`, `5`: "must be a JSON object, not 5", `true`: "must be a JSON object",
		`"hello"`: `near "hello": no value begins`, `hello`: `character 1 near "hello"`, `"[1]"`: "must be a JSON object", `"\"\\\"a\\\"\""`: "must be a JSON object, not a text",
		"Sure:\n{\"a\":1}": "no value begins", "\xff\xfe": "no value begins", "\x00": "no value begins",
	} {
		_, err := agent.ReadArguments(in)
		require.ErrorContains(t, err, want, in)
		text := agent.RefuseArguments("ls", err)
		require.True(t, strings.HasPrefix(text, "The arguments of ls ") && agent.CleanText(text) == text && len(text) < 400, text)
	}
}

// What Go's parser takes and others refuse is made harmless.
func TestCase_W07_HarmlessJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"x \ud99c y"}`: "{\"a\":\"x \uFFFD y\"}", `{"a":"\udc00\ud83d"}`: "{\"a\":\"\uFFFD\uFFFD\"}", `{"a":"\ud83d\ud83d\ude00"}`: "{\"a\":\"\uFFFD\\ud83d\\ude00\"}", `{"\ud99c":1}`: "{\"\uFFFD\":1}",
		`{"a":"\u0000"}`: "{\"a\":\"\uFFFD\"}", "{\"a\":\"\xff\xed\xa0\x80\"}": "{\"a\":\"\uFFFD\uFFFD\uFFFD\uFFFD\"}",
		`{"a":1,"b":2,"a":3}`: `{"b":2,"a":3}`, `{"a":1,"\u0061":2,"c":{"d":1,"d":{"e":1,"e":2}}}`: `{"\u0061":2,"c":{"d":{"e":2}}}`,
		`{ "a": 12345678901234567890 }`: `{ "a": 12345678901234567890 }`,
	} {
		require.Equal(t, want, string(agent.HarmlessJSON(json.RawMessage(in))), in)
		require.NoError(t, llmtest.Strict(want))
		got, err := agent.ReadArguments(in)
		require.NoError(t, err)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{``, `{`, `{"a":1,}`, `{'a':1}`, `{a:1}`, `{"a":True}`, `{} {}`, `{}}`, "{\"a\":\"\n\"}", `{"a":1e999}`, strings.Repeat("[", 100) + strings.Repeat("]", 100)} {
		require.Nil(t, agent.HarmlessJSON(json.RawMessage(in)), in)
	}
}

// The JSON of an answer is found behind reasoning, in a fence, in a sentence.
func TestCase_W11_Answers(t *testing.T) {
	for in, want := range map[string][]agent.Answer{
		"<think>\nlet me see {\"b\":2}\n</think>\n\n{\"a\":1}":           {{`{"a":1}`, `let me see {"b":2}`}},
		"no opening tag {\"b\":2}</think>{\"a\":1}":                      {{`{"a":1}`, `no opening tag {"b":2}`}},
		"<THINKING>x</THINKING> Here: ```json\n{\"a\":1}\n``` As asked.": {{`{"a":1}`, "x\nHere:\nAs asked."}},
		"Here it is: {'a':1,} [done]":                                    {{`{"a":1}`, "Here it is:\n[done]"}},
		"first [1], then {\"a\":[2]}":                                    {{`[1]`, "first\n, then {\"a\":[2]}"}, {`{"a":[2]}`, "first [1], then"}},
		"```\nnot json\n``` and ```json\n[1]\n```":                       {{`[1]`, "```\nnot json\n``` and"}},
		"<think>only thought":                                            nil,
		"none":                                                           nil,
		"":                                                               nil,
	} {
		require.Equal(t, want, agent.Answers(in), in)
	}
	require.LessOrEqual(t, len(agent.Answers(strings.Repeat("{} ", 10_000))), 100)
}

// FuzzReadArguments: whatever a model sends, what is read is an object for a strict
// parser, it says what Go's own parser reads where that takes it, and reading it again
// changes nothing.
func FuzzReadArguments(f *testing.F) {
	for _, s := range []string{
		``, `{"a":"x \ud99c y"}`, `{"a":1,}`, `{'a':'b'}`, `{a:[True,None]}`, `"{\"a\":1}"`, "```json\n{}\n```", `{"a":1}{"a":1}}`, `{"a":1e999}`, "{\"a\":\"\x00\xff\n\"}", `{"a":1,"a":{"b":2,"b":3}}`, `{{{`, `{"a":"\u0000\/"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := agent.ReadArguments(in)
		if err != nil {
			if text := agent.RefuseArguments("x", err); agent.CleanText(text) != text {
				t.Fatalf("%q: %q is no text", in, text)
			}
			return
		}
		if err := llmtest.Strict(got); err != nil || got[0] != '{' {
			t.Fatalf("%q became %q: %v", in, got, err)
		}
		if again, err := agent.ReadArguments(got); err != nil || again != got {
			t.Fatalf("%q became %q and then %q, %v", in, got, again, err)
		}
		var ours, theirs map[string]any
		if json.Unmarshal([]byte(got), &ours) != nil {
			t.Fatalf("Go does not read %q", got)
		}
		if json.Unmarshal([]byte(in), &theirs) == nil && len(theirs) > 0 && !strings.Contains(in, `\u0000`) && !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%q became %q", in, got)
		}
	})
}

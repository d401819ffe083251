package terminal

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVisible(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain text stays":          {`Grüße, 世界 👋 a\b "c"`, `Grüße, 世界 👋 a\b "c"`},
		"escape sequences":          {"rm\x1b[2Jls", `rm\x1b[2Jls`},
		"a title with its text":     {"a\x1b]0;rm -rf\x07b", `a\x1b]0;rm -rf\ab`},
		"8-bit sequences":           {"a\u009b2J", `a\u009b2J`},
		"bidi":                      {"a\u202eb\u2066", `a\u202eb\u2066`},
		"zero width":                {"a\u200bb\u2060\ufeff", `a\u200bb\u2060\ufeff`},
		"invisible letters":         {"a\u3164\u115f\ufe0f\u2800", `a\u3164\u115f\ufe0f\u2800`},
		"tags":                      {"a\U000e0041", `a\U000e0041`},
		"blanks that are none":      {"rm\u00a0\u3000x\u2028y", `rm\u00a0\u3000x\u2028y`},
		"backspace, return, NUL":    {"rm\b\bls\r\x00\x7f", `rm\b\bls\r\x00\x7f`},
		"an escape or its spelling": {"\\x1b\x1b", `\\x1b\x1b`},
		"invalid UTF-8":             {"a\xffb", `a\xffb`},
		"a gap as long as a screen": {"ls" + strings.Repeat(" ", 400) + "; rm", `ls\x20{400}; rm`},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, Visible(c.in)) })
	}
}

func TestWholeCall(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, c := range map[string]struct{ tool, args, want string }{
		"every argument in its order": {"t", `{"b":"x","a":1,"c":{"d":[1, 2]}}`, "t\n  b: x\n  a: 1\n  c: {\"d\":[1,2]}"},
		"nothing is cut":              {"shell", `{"command":"` + long + `"}`, "shell\n  command: " + long},
		"all lines, behind bars":      {"shell", `{"command":"ls\n  path: /tmp\n"}`, "shell\n  command: (3 lines)\n    | ls\n    |   path: /tmp\n    | "},
		"one rule for all lines":      {"w", `{"content":"a\\b\n\tc"}`, "w\n  content: (2 lines)\n    | a\\\\b\n    | \\tc"},
		"what is given twice":         {"shell", `{"command":"ls","command":"rm"}`, "shell\n  command: ls\n  command: rm"},
		"arguments as text":           {"t", `"{\"path\":\".\"}"`, "t\n  path: ."},
		"no object":                   {"t", `"rm\n-rf"`, "t\n  arguments that are no JSON object: (2 lines)\n    | rm\n    | -rf"},
		"more than one object":        {"t", `"{\"a\":1}{\"b\":2}"`, "t\n  arguments that are no JSON object: {\"a\":1}{\"b\":2}"},
		"names are text too":          {"e\x1b[2Jvil", `{"a\nb: c":"\u202ex","e":""}`, "e\\x1b[2Jvil\n  a\\nb: c: \\u202ex\n  e: \"\""},
		"raw values":                  {"t", "{\"a\":[\"\u202e\"]}", "t\n  a: [\"\\u202e\"]"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, strings.Join(WholeCall(c.tool, json.RawMessage(c.args)), "\n"))
		})
	}
}

// What passes for something else is written as an escape; a text of one script stays.
func TestLookalikesAreShown(t *testing.T) {
	for text, want := range map[string]string{
		"cat /еtc/hosts":                   `cat /\u0435tc/hosts`,
		"http://аpple.com http://сосо.com": `http://\u0430pple.com http://\u0441\u043e\u0441\u043e.com`,
		"a" + strings.Repeat("\u0301", 5):  "a" + strings.Repeat(`\u0301`, 5),
		"rm фото.png Δt сор ἀρχή é":        "rm фото.png Δt сор ἀρχή é",
	} {
		assert.Equal(t, want, Visible(text))
		assert.Equal(t, []string{want}, VisibleLines(text))
	}
	long := "x/" + strings.Repeat("о", 500_000) + "ф" // what it costs grows with the text, not with its square
	assert.Equal(t, long, Visible(long))
	assert.Equal(t, `{"c":"\u0435tc","d":"сор"}`, string(VisibleJSON([]byte(`{"c":"еtc","d":"сор"}`))))
}

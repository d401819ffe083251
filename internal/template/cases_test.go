package template_test

import (
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const strict = "---\nname: x\ndescription: d\ntools: file_read\napproval:\n  shell: deny\n---\nYou only read.\n"

// What looks like front matter is read: what it denies is denied.
func TestCase_A01_FrontMatterIsRead(t *testing.T) {
	given, err := os.ReadFile("testdata/cases/trailspace.md")
	require.NoError(t, err)
	replace := func(old, by string) string {
		out := strings.ReplaceAll(strict, old, by)
		require.NotEqual(t, strict, out)
		return out
	}
	var wide strings.Builder
	wide.WriteString("\xff\xfe")
	for _, u := range utf16.Encode([]rune(replace("\n", "\r\n"))) {
		wide.Write([]byte{byte(u), byte(u >> 8)})
	}
	for name, text := range map[string]string{
		"the case":                strings.Replace(string(given), "trailspace", "x", 1),
		"mark":                    "\ufeff" + strict,
		"Windows":                 "\ufeff" + replace("\n", "\r\n"),
		"old Mac":                 replace("\n", "\r"),
		"UTF-16":                  wide.String(),
		"blank lines above":       "\n \t\n\n" + strict,
		"blanks before":           "  " + strict,
		"blanks nobody sees":      "\u200b\u00a0\n" + replace("---\n", "---\u00a0\n"),
		"blanks at the end":       replace("---\n", "--- \t\n"),
		"dots at the end":         replace("---\nYou", "...\nYou"),
		"dots and blanks":         replace("---\nYou", "... \t\nYou"),
		"tabs":                    replace("  shell", "\tshell"),
		"tab behind the colon":    replace("tools: ", "tools:\t"),
		"hard blanks":             replace("  shell", "\u00a0\u00a0shell"),
		"other spelling of keys":  replace("tools:", "Tools:"),
		"other spelling of gates": replace("deny", "Deny "),
		"quoted keys":             replace("approval:", `"approval":`),
		"no line end at the end":  strings.TrimSuffix(strict, "\n"),
		"in one line":             replace("approval:\n  shell: deny", "approval: {shell: deny}"),
	} {
		w := newWorld(t)
		w.write(".spool/agents/a.md", text)
		w.agree()
		c, warnings := w.load()
		assert.Empty(t, warnings, name)
		cfg, ok := c.Get("x")
		require.True(t, ok, name)
		assert.Equal(t, []string{"file_read"}, cfg.Tools, name)
		assert.Equal(t, map[string]string{"shell": "deny"}, cfg.Approval, name)
		assert.Equal(t, "You only read.", cfg.SystemPrompt, name)
	}
}

// What looks like front matter and cannot be read keeps the file from being used.
func TestCase_A01_WhatCannotBeReadIsRefused(t *testing.T) {
	inner := "name: x\ntools: file_read\n"
	for name, c := range map[string]struct{ text, want string }{
		"four dashes":            {"----\n" + inner + "----\nB", ":2: skipped: this looks like front matter"},
		"long dashes":            {"———\n" + inner + "———\nB", ":2: skipped: this looks like front matter"},
		"dashes and words":       {"--- yaml\n" + inner + "---\nB", ":2: skipped: this looks like front matter"},
		"TOML":                   {"+++\ntools = [\"file_read\"]\n+++\nB", ":2: skipped: this looks like front matter"},
		"JSON":                   {"{\n  \"tools\": [\"file_read\"]\n}\nB", ":2: skipped: this looks like front matter"},
		"JSON in one line":       {"{\"tools\": [\"file_read\"]}\nB", ":1: skipped: this looks like front matter"},
		"in a code fence":        {"```yaml\n---\n" + inner + "---\n```\nB", ":3: skipped: this looks like front matter"},
		"no line above it":       {inner + "---\nB", ":1: skipped: this looks like front matter"},
		"no lines at all":        {inner + "\nB", ":1: skipped: this looks like front matter"},
		"behind a heading":       {"# Agent\n\n---\n" + inner + "---\nB", ":4: skipped: this looks like front matter"},
		"behind a comment":       {"<!--\nA licence.\n-->\n---\n" + inner + "---\nB", ":5: skipped: this looks like front matter"},
		"behind a line of text":  {"My agent\n---\n" + inner + "---\nB", ":3: skipped: this looks like front matter"},
		"a second one":           {"---\nname: x\n---\n---\n" + inner + "---\nB", ":5: skipped: this looks like front matter"},
		"an empty one above":     {"---\n---\n" + inner + "---\nB", ":3: skipped: this looks like front matter"},
		"no end":                 {"\n---\n" + inner + "B", ":2: skipped: the front matter has no closing ---"},
		"end with other dashes":  {"---\n" + inner + "----\nB", ":1: skipped: the front matter has no closing ---"},
		"a key twice":            {"---\ntools: file_read\ntools: shell\n---\nB", ":3: skipped: "},
		"a key in two spellings": {"---\ntools: file_read\nTools: shell\n---\nB", ":3: skipped: Tools stands in line 2 too"},
		"a gate that is none":    {"---\napproval:\n  shell: never\n---\nB", `:3: skipped: approval of shell is "never"`},
		"rules in a list":        {"---\napproval: [\"shell: deny\"]\n---\nB", ":2: skipped: approval is a list"},
		"denied tools as number": {"---\ndisallowedTools: 3\n---\nB", ":2: skipped: disallowedTools is 3"},
		"opencode's denials":     {"---\npermission:\n  edit: deny\n---\nB", `:2: skipped: the key "permission" is not known here and may forbid something`},
		"Cursor's denial":        {"---\nreadonly: true\n---\nB", `:2: skipped: the key "readonly"`},
		"a misspelt limit":       {"---\nname: x\nmaxStepps: 3\n---\nB", `:3: skipped: the key "maxStepps"`},
		"keys of a command":      {"---\nallowed-tools: Read\n---\nB", `:2: skipped: the key "allowed-tools"`},
		"JSON, other keys first": {`{"name":"x","tools":["file_read"]}`, ":1: skipped: this looks like front matter"},
		"JSON between marks":     {";;;\n{\"tools\":[\"file_read\"]}\n;;;\nB", ":2: skipped: this looks like front matter"},
		"a list of keys":         {"- name: x\n- approval: deny\n\nB", ":1: skipped: this looks like front matter"},
		"bold keys":              {"**name:** x\n**tools:** file_read\n\nB", ":1: skipped: this looks like front matter"},
		"steps in words":         {"---\nmaxTurns: few\n---\nB", ":2: skipped: maxTurns is \"few\""},
		"bad encoding":           {"---\nname: x\n# caf\xe9\ntools: file_read\n---\nB", ":3: skipped: the file is not valid UTF-8"},
	} {
		w := newWorld(t)
		w.write(".spool/agents/x.md", c.text)
		catalog, warnings := w.load()
		if assert.Len(t, warnings, 1, name) {
			assert.Contains(t, warnings[0], ".spool/agents/x.md"+c.want, name)
		}
		_, ok := catalog.Get("x")
		assert.False(t, ok, name)
	}
}

// A prompt may talk about front matter.
func TestCase_A01_PromptsStayPrompts(t *testing.T) {
	for name, text := range map[string]string{
		"an example in code":    "You write agents:\n\n```\n---\nname: x\ntools: file_read\n---\n```\n",
		"a rule between parts":  "# Role\nYou read.\n\n---\n\nTools: use them with care.\n",
		"a line with a colon":   "description: of the task, in one line, is what you get.\nYou answer.\n",
		"rules behind headings": "# One\n\n---\n\n# Two\nText\n",
		"a dash":                "— that is how you begin each answer.\n",
	} {
		for head, front := range map[string]string{"": "", " behind front matter": "---\nname: x\n---\n"} {
			w := newWorld(t)
			w.write(".spool/agents/x.md", front+text)
			c, warnings := w.load()
			assert.Empty(t, warnings, name+head)
			assert.Equal(t, strings.TrimSpace(text), get(t, c, "x").SystemPrompt, name+head)
		}
	}
}

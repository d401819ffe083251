package mcp

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/agent"
)

func TestTheGistOfWhatAServerSaid(t *testing.T) {
	for name, c := range map[string]struct{ said, want string }{
		"nothing":   {" \n\n", ""},
		"one line":  {"no such file\n", "no such file"},
		"two":       {"a\n\nb\n", "a\nb"},
		"noise":     {strings.Repeat("noise\n", 80), "noise\nnoise [lines left out: 78]"},
		"node":      {"node:internal:1\n  throw err;\n  ^\n\nError: Cannot find module 'x'\nRequire stack: []\n\nNode.js v22\n", "Error: Cannot find module 'x'\nNode.js v22 [lines left out: 4]"},
		"python":    {"Traceback (most recent call last):\n  File \"x\"\nValueError: no\n", "ValueError: no [lines left out: 2]"},
		"long line": {strings.Repeat("é", 5000), strings.Repeat("é", longestLine-1) + "…"},
		"terminal":  {"\x1b[31mred\x1b[0m\rnext", "red\nnext"},
	} {
		assert.Equal(t, c.want, gist(c.said), name)
	}
}

// A server that prints garbage instead of answering: what is told of it is short, in
// the list of tools, the worker's warning and a tool's result, and starts with a whole
// line.
func TestNoiseOfAServerIsToldBriefly(t *testing.T) {
	noise := object{"command": "sh", "args": []string{"-c", `i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo "garbage $i of a program that is no server, $i"; done`}, "approval": "auto"}
	f := begin(t, object{"s": noise})
	eventually(t, "the warning", func() bool { return strings.Contains(f.log.String(), "does not answer") })
	_, servers := Probe(t.Context(), f.options())
	problem, warning := servers[0].Problem, f.log.String()
	assert.Regexp(t, `it said: garbage \d+ of a program that is no server, \d+\ngarbage \d+ of a program that is no server, \d+ \[lines left out: \d+\]$`, problem)
	assert.Less(t, utf8.RuneCountInString(problem), 500)
	assert.LessOrEqual(t, strings.Count(warning[:strings.Index(warning, "again=")], "garbage"), 2)
	result := f.call("mcp__s__any", nil)
	assert.Equal(t, agent.CallFailed, result.Status)
	assert.LessOrEqual(t, strings.Count(result.Content, "garbage"), 2, result.Content)
}

package tool_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/tool/output"
)

// B6: nothing a tool prints breaks a store, a provider or a terminal.
func TestCleanTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[31mred\x1b[0m":                       "red",
		"\x1b]0;title\x07text":                     "text",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b[2J\x1b[1;1Hhome":                     "home",
		"\x1bPdcs\x1b\\after":                      "after",
		"\x1b(Bplain\x1bcreset":                    "plainreset",
		"\x1b]unfinished\nnext":                    "\nnext",
		"a\x00b\xffc":                              "ab\uFFFDc",
		"10%\r20%\r\ndone":                         "10%\n20%\ndone",
		"bell\x07back\x08\x7f":                     "bellback",
		"\u009b31mc1":                              "31mc1",
		"tab\tend \U0001F600":                      "tab\tend \U0001F600",
		"lone \x1b":                                "lone ",
	} {
		assert.Equal(t, want, output.Clean(in), "%q", in)
	}
}

func TestClip(t *testing.T) {
	assert.Equal(t, "short", tool.Clip("short", 5))
	text := ""
	for len(text) < 1000 {
		text += "\U0001F600é"
	}
	for limit := 0; limit < 60; limit++ {
		out := tool.Clip(text, limit)
		assert.True(t, utf8.ValidString(out), "limit %d: %q", limit, out)
		assert.Contains(t, out, "bytes left out")
	}
	assert.Equal(t, "ab\n[… 6 bytes left out …]\nij", tool.Clip("abcdefghij", 4))
}

package terminal

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCleanRemovesTerminalControl(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain text stays":                 {"Grüße, 世界 👋\n\ttab", "Grüße, 世界 👋\n\ttab"},
		"colours go":                       {"\x1b[31mred\x1b[0m", "red"},
		"a title goes with its text":       {"a\x1b]0;owned\x07b", "ab"},
		"a hyperlink keeps its label":      {"\x1b]8;;http://x\x1b\\label\x1b]8;;\x1b\\", "label"},
		"clipboard writes go":              {"\x1b]52;c;ZXZpbA==\x07ok", "ok"},
		"8-bit sequences go":               {"\u009b31mred\u009d0;t\u009cend", "redend"},
		"device control goes":              {"\x1bPq#0\x1b\\x", "x"},
		"carriage return and backspace":    {"secret\r\b\bshown\x00\x7f", "secretshown\uFFFD"},
		"order of text cannot be changed":  {"a\u202eb\u2066c\u200f", "abc"},
		"a broken sequence ends at a line": {"\x1b]0;never ends\nnext", "\nnext"},
		"a broken CSI ends at a line":      {"\x1b[12\nnext", "\nnext"},
		"a lone escape takes one letter":   {"\x1bcx", "x"},
		"charset designation":              {"\x1b(0x", "x"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, Clean(c.in)) })
	}
}

func TestCleanerKeepsItsPlaceBetweenPieces(t *testing.T) {
	whole := "a\x1b[1;31mb\x1b]0;title\x1b\\c\x1b(Bd\u009b0me"
	for cut := range len(whole) {
		var c Cleaner
		if !validCut(whole, cut) {
			continue
		}
		got := c.Clean(whole[:cut]) + c.Clean(whole[cut:])
		assert.Equal(t, "abcde", got, "cut at %d", cut)
	}
}

func validCut(s string, i int) bool { return i == 0 || s[i]&0xc0 != 0x80 }

func TestOneLine(t *testing.T) {
	assert.Equal(t, "a b c", OneLine(" a\n b\t\x1b[1mc ", 10))
	assert.Equal(t, "äöü…", OneLine("äöüäöü", 4))
}

func TestCallText(t *testing.T) {
	assert.Equal(t, "ls(path=.)", CallText("ls", []byte(`{"path":"."}`)))
	assert.Equal(t, "t(a=1, b=x)", CallText("t", []byte(`{"b":"x","a":1}`)))
	assert.Equal(t, "t(path=.)", CallText("t", []byte(`"{\"path\":\".\"}"`)), "arguments as JSON text")
	assert.Equal(t, "t(not json)", CallText("t", []byte(`"not json"`)))
	assert.Equal(t, `e\x1b[2Jvil(a=\x1b[2Jx)`, CallText("e\x1b[2Jvil", []byte(`{"a":"\u001b[2Jx"}`)))
}

package tool

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxResult bounds the text of one result; longer ones lose their middle.
const MaxResult = 64 << 20

// CleanText makes text that every store, provider and terminal accepts: bad
// bytes become U+FFFD, NUL goes away.
func CleanText(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.ContainsRune(s, 0) {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return s
}

// Escape sequences: CSI, the string sequences (OSC, DCS, PM, APC, SOS) up to BEL
// or ST, and the short ones. An unfinished string sequence ends at the line.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]` +
	`|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?` +
	`|\x1b[ -/]*[0-~]`)

// CleanTerminal is CleanText for what programs print: it also removes escape
// sequences and control characters, so that output cannot drive a terminal.
func CleanTerminal(s string) string {
	s = escapes.ReplaceAllString(CleanText(s), "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r': // a progress bar that rewrote its line
			return '\n'
		case r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0):
			return -1
		}
		return r
	}, s)
}

// Clip keeps head and tail of a text longer than limit bytes and says how much
// is missing. It never cuts a character.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head, tail := wholeEnd(s[:limit/2]), wholeStart(s[len(s)-limit/2:])
	return head + omitted(int64(len(s)-len(head)-len(tail))) + tail
}

func omitted(n int64) string { return fmt.Sprintf("\n[… %d bytes left out …]\n", n) }

// wholeEnd drops a character that was cut at the end.
func wholeEnd(s string) string {
	for i := 1; i <= utf8.UTFMax && i <= len(s); i++ {
		if c := s[len(s)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}

// wholeStart drops a character that was cut at the start.
func wholeStart(s string) string {
	for i := 0; i < utf8.UTFMax && i < len(s); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	if len(s) < utf8.UTFMax {
		return ""
	}
	return s // not the rest of one character, so not ours to mend
}

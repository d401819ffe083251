package tool

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxResult bounds the text of one result; longer ones lose their middle.
const MaxResult = 64 << 20

// Escape sequences: CSI, the string sequences (OSC, DCS, PM, APC, SOS) up to BEL
// or ST, and the short ones. An unfinished string sequence ends at the line.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]` +
	`|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?` +
	`|\x1b[ -/]*[0-~]`)

// CleanText makes text that every store, provider and reader accepts: bad bytes
// become U+FFFD; NUL, escape sequences and other control characters go away, so
// that no result can drive a terminal. Tabs and line ends stay.
func CleanText(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = escapes.ReplaceAllString(s, "")
	}
	if strings.IndexFunc(s, isControl) < 0 {
		return s // most text; a large result is not copied for nothing
	}
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return -1
		}
		return r
	}, s)
}

func isControl(r rune) bool {
	return (r < 0x20 && r != '\n' && r != '\t' && r != '\r') || (r >= 0x7f && r < 0xa0)
}

// CleanTerminal is CleanText for what programs print: a carriage return, by
// which progress bars rewrite their line, becomes a line end.
func CleanTerminal(s string) string {
	s = strings.ReplaceAll(CleanText(s), "\r\n", "\n")
	return strings.ReplaceAll(s, "\r", "\n")
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

package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spool-agents/spool/internal/tool/textfile"
)

// MaxResult bounds the text of one result; longer ones lose their middle.
const MaxResult = 64 << 20

// CleanText makes text that every store, provider and reader accepts: bad bytes
// become U+FFFD; NUL, escape sequences and other control characters go away, so
// that no result can drive a terminal. Tabs and line ends stay.
func CleanText(s string) string { return textfile.Clean(s) }

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

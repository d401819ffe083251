package tool

import (
	"github.com/spool-agents/spool/internal/tool/output"
	"github.com/spool-agents/spool/internal/tool/textfile"
)

// MaxResult bounds the text of one result; longer ones lose their middle.
const MaxResult = 64 << 20

// CleanText makes text that every store, provider and reader accepts: bad bytes
// become U+FFFD; NUL, escape sequences and other control characters go away, so
// that no result can drive a terminal. Tabs and line ends stay.
func CleanText(s string) string { return textfile.Clean(s) }

// Clip keeps head and tail of a text longer than limit bytes and says how much
// is missing. It never cuts a character.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head, tail := output.WholeEnd(s[:limit/2]), output.WholeStart(s[len(s)-limit/2:])
	return head + output.Omitted(int64(len(s)-len(head)-len(tail))) + tail
}

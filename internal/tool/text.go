package tool

import (
	"fmt"
	"strings"
	"sync"
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

// bounded keeps the first and the last bytes of a stream, so that a command
// that prints without end costs no more memory than one that does not.
type bounded struct {
	mu    sync.Mutex
	half  int
	head  []byte
	tail  []byte // a ring once full
	start int    // of the oldest byte in tail
	total int64
}

func newBounded(limit int) *bounded { return &bounded{half: limit / 2} }

// Write never fails.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	b.total += int64(n)
	take := min(len(p), b.half-len(b.head))
	b.head = append(b.head, p[:take]...)
	p = p[take:]
	if len(p) > b.half {
		p = p[len(p)-b.half:]
	}
	if grow := min(len(p), b.half-len(b.tail)); grow > 0 {
		b.tail = append(b.tail, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		c := copy(b.tail[b.start:], p)
		b.start = (b.start + c) % len(b.tail)
		p = p[c:]
	}
	return n, nil
}

// String returns what was kept, with a note in place of what was not.
func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	head := string(b.head)
	tail := string(b.tail[b.start:]) + string(b.tail[:b.start])
	lost := b.total - int64(len(head)) - int64(len(tail))
	if lost == 0 {
		return head + tail
	}
	h, t := wholeEnd(head), wholeStart(tail)
	return h + omitted(lost+int64(len(head)-len(h)+len(tail)-len(t))) + t
}

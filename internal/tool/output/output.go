// Package output holds what programs print, as text.
package output

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spool-agents/spool/internal/tool/textfile"
)

// Clean is textfile.Clean for what programs print: a carriage return, by
// which progress bars rewrite their line, becomes a line end.
func Clean(s string) string {
	s = strings.ReplaceAll(textfile.Clean(s), "\r\n", "\n")
	return strings.ReplaceAll(s, "\r", "\n")
}

const (
	// heldOutput is how much of an output is held in memory; what is longer is in a file.
	heldOutput = 1 << 20
	lastOutput = 1 << 20 // how much of its end is kept, if it is longer than what is kept
)

// Bounded keeps the first and the last bytes of what a program prints, as text, so that
// one that prints without end costs no more than one that does not.
type Bounded struct {
	mu         sync.Mutex
	most, last int    // bytes of the beginning, and of the end, that are kept
	rest       []byte // what may be a part of a character or of the end of a line
	head       []byte // the beginning, unless it is in file
	file       *os.File
	kept       int    // bytes of the beginning
	full       bool   // the beginning is complete
	tail       []byte // a ring once full
	start      int    // of the oldest byte in tail
	total      int
	open       bool // the last line has no end
}

// New keeps limit bytes.
func New(limit int) *Bounded {
	last := min(limit/2, lastOutput)
	return &Bounded{most: limit - last, last: last}
}

// Write never fails.
func (b *Bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = append(b.rest, p...)
	n := len(WholeEnd(string(b.rest)))
	if n > 0 && b.rest[n-1] == '\r' {
		n--
	}
	b.add(Clean(string(b.rest[:n])))
	b.rest = append(b.rest[:0], b.rest[n:]...)
	return len(p), nil
}

func (b *Bounded) add(text string) {
	b.total += len(text)
	if text != "" {
		b.open = text[len(text)-1] != '\n'
	}
	if !b.full {
		text = text[b.begin(text):]
	}
	p := []byte(text)
	if len(p) > b.last {
		p = p[len(p)-b.last:]
	}
	if grow := min(len(p), b.last-len(b.tail)); grow > 0 {
		b.tail = append(b.tail, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		c := copy(b.tail[b.start:], p)
		b.start = (b.start + c) % len(b.tail)
		p = p[c:]
	}
}

// begin adds to the beginning and returns how much. What a disk has no room for is not
// a part of it.
func (b *Bounded) begin(text string) (n int) {
	if len(text) > b.most-b.kept {
		text, b.full = WholeEnd(text[:b.most-b.kept]), true
	}
	var err error
	switch {
	case b.file == nil && len(b.head)+len(text) <= heldOutput:
		b.head, n = append(b.head, text...), len(text)
	case b.file == nil:
		var f *os.File
		if f, err = os.CreateTemp("", "spool-output-*"); err != nil {
			break
		}
		_ = os.Remove(f.Name()) // it goes with its last reader
		if _, err = f.Write(b.head); err != nil {
			_ = f.Close()
			break
		}
		b.file, b.head = f, nil
		fallthrough
	default:
		n, err = b.file.WriteString(text)
	}
	b.full = b.full || err != nil
	b.kept += n
	return n
}

// End returns what was kept, with a note in place of what was not and more text on a line
// of its own: as a string, or as the file that it is in.
func (b *Bounded) End(more string) (string, *io.SectionReader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(Clean(string(b.rest)))
	b.rest = nil
	tail := string(b.tail[b.start:]) + string(b.tail[:b.start])
	if lost := b.total - b.kept - len(tail); lost > 0 {
		t := WholeStart(tail)
		tail = Omitted(int64(lost+len(tail)-len(t))) + t
	}
	if b.open {
		tail += "\n"
	}
	if tail += more; b.file == nil {
		return string(b.head) + tail, nil
	}
	n, _ := b.file.WriteAt([]byte(tail), int64(b.kept))
	return "", io.NewSectionReader(b.file, 0, int64(b.kept+n))
}

// Omitted stands in place of bytes that were left out.
func Omitted(n int64) string { return fmt.Sprintf("\n[… %d bytes left out …]\n", n) }

// WholeEnd drops a character that was cut at the end.
func WholeEnd(s string) string {
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

// WholeStart drops a character that was cut at the start.
func WholeStart(s string) string {
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

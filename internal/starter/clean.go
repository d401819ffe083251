package starter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text of models, tools and other people safe for a terminal.
func clean(s string) string {
	var c cleaner
	return c.clean(s)
}

// oneLine cleans a text, joins its lines and cuts it to at most limit characters.
func oneLine(s string, limit int) string {
	return cut(strings.Join(strings.Fields(clean(s)), " "), limit)
}

// cut shortens a text to at most limit characters.
func cut(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// cleaner drops terminal control from a text that may come in pieces: escape
// sequences as a whole, other control characters but newline and tab, and the
// characters that reorder text.
type cleaner struct{ state escState }

type escState int

const (
	plain    escState = iota
	escaped           // after ESC
	sequence          // in ESC [ … up to its final byte
	text              // in ESC ] … up to BEL or ESC \
	textEnd           // after ESC in text
	designator
)

func (c *cleaner) clean(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch c.state {
		case plain:
			switch {
			case r == 0x1b:
				c.state = escaped
			case r == 0x9b:
				c.state = sequence
			case r == 0x90 || r == 0x98 || r == 0x9d || r == 0x9e || r == 0x9f:
				c.state = text
			case r == 0: // as stores write it in topics
				b.WriteRune(utf8.RuneError)
			case r == '\n' || r == '\t' || !hidden(r):
				b.WriteRune(r)
			}
		case escaped:
			switch {
			case r == '[':
				c.state = sequence
			case r == ']' || r == 'P' || r == '_' || r == '^' || r == 'X':
				c.state = text
			case r >= 0x20 && r <= 0x2f:
				c.state = designator
			default:
				c.state = plain
			}
		case designator, sequence:
			// A newline ends a sequence that never ended, so that it cannot
			// swallow the rest.
			switch {
			case r == '\n':
				c.state = plain
				b.WriteRune(r)
			case c.state == designator && (r < 0x20 || r > 0x2f), r >= 0x40 && r <= 0x7e:
				c.state = plain
			}
		case text:
			switch r {
			case '\n':
				c.state = plain
				b.WriteRune(r)
			case 0x07, 0x9c:
				c.state = plain
			case 0x1b:
				c.state = textEnd
			}
		case textEnd:
			c.state = plain
			if r != '\\' {
				b.WriteString(c.clean(string(r)))
			}
		}
	}
	return b.String()
}

// hidden reports whether a character controls the terminal or the order of text.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f
}

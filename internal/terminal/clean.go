// Package terminal is what a person sees and types: text that is safe for a terminal,
// tool calls shown as they are, and lines that are read.
package terminal

import (
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/mattn/go-isatty"
)

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Clean makes text of models, tools and other people safe for a terminal.
func Clean(s string) string { return new(Cleaner).Clean(s) }

// Width is how many columns a stream has that is a terminal, else 0.
func Width(stream any) int {
	if !Is(stream) {
		return 0
	}
	width, _, _ := term.GetSize(stream.(*os.File).Fd()) // one that does not tell is as wide as need be
	return width
}

// OneLine cleans a text, joins its lines and cuts it to at most limit columns.
func OneLine(s string, limit int) string {
	return Cut(strings.Join(strings.Fields(Clean(s)), " "), limit)
}

// Cut shortens a text to at most limit columns.
func Cut(s string, limit int) string {
	if r := []rune(s); len(r) > 4*limit { // most of them take no column
		s = string(r[:4*limit]) + "…"
	}
	return ansi.Truncate(s, limit, "…")
}

// Indent puts two spaces before each line.
func Indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

// Escape sequences: ESC [ … up to a letter, ESC ] … up to BEL or ESC \, and others. One
// that is broken ends at the end of its line.
const (
	control = `(?:\x1b\[|\x{9b})[^\n@-~]*`
	message = `(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\n\x07\x1b\x{9c}]*`
)

var (
	sequence   = regexp.MustCompile(control + `[@-~]?|` + message + `(?:\x07|\x1b\\|\x{9c})?|\x1b[ -/]*.?`)
	unfinished = regexp.MustCompile(`(?:` + control + `|` + message + `\x1b?|\x1b[ -/]*)$`)
)

// Cleaner cleans a text that comes in pieces.
type Cleaner struct{ rest string }

// Clean drops escape sequences, control characters other than newline and tab, and
// characters that change the order of text.
func (c *Cleaner) Clean(s string) string {
	s, c.rest = c.rest+s, ""
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	if at := unfinished.FindStringIndex(s); at != nil {
		s, c.rest = s[:at[0]], s[at[0]:]
		if len(c.rest) > 64 { // how it begins and ends is all that counts
			_, first := utf8.DecodeRuneInString(c.rest)
			c.rest = c.rest[:max(first, 2)] + c.rest[len(c.rest)-1:]
		}
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == 0: // as stores write it in topics
			return utf8.RuneError
		case r != '\n' && r != '\t' && hidden(r):
			return -1
		}
		return r
	}, sequence.ReplaceAllString(s, ""))
}

// hidden reports whether a character controls the terminal or the order of text.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f
}

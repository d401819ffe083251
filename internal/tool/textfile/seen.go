package textfile

import (
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
)

// Escape sequences: CSI, the string sequences (OSC, DCS, PM, APC, SOS) up to BEL
// or ST, and the short ones. An unfinished string sequence ends at the line.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]` +
	`|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?` +
	`|\x1b[ -/]*[0-~]`)

// hides reports whether a character is never shown: it could drive a terminal.
func hides(r rune) bool {
	return (r < 0x20 && r != '\n' && r != '\t' && r != '\r') || (r >= 0x7f && r < 0xa0)
}

// Seen is a text as it is shown, and where what is shown stands in the text. Lines end
// in \n; escape sequences and control characters are left out; bytes that are no
// characters show as U+FFFD.
type Seen struct {
	Text string
	odd  []unit
}

// unit is a piece that is shown as something else, or not at all.
type unit struct{ seen, seenLen, raw, rawLen int }

// See shows a text.
func See(raw string) Seen { return see(raw, true) }

// Clean is the text as it is shown, but for its line ends.
func Clean(raw string) string { return see(raw, false).Text }

func see(raw string, ends bool) Seen {
	if strings.IndexFunc(raw, func(r rune) bool { return hides(r) || ends && r == '\r' }) < 0 && utf8.ValidString(raw) {
		return Seen{Text: raw} // most text; a large one is not copied for nothing
	}
	var skip [][]int
	if strings.IndexByte(raw, 0x1b) >= 0 {
		skip = escapes.FindAllStringIndex(raw, -1)
	}
	mac := ends && LineEnd(raw) == "\r"
	var b strings.Builder
	s := Seen{}
	for at := 0; at < len(raw); {
		n, shown := next(raw, at, &skip, ends)
		if mac && shown == "\r" {
			shown = "\n"
		}
		if len(shown) != n {
			s.odd = append(s.odd, unit{b.Len(), len(shown), at, n})
		}
		b.WriteString(shown)
		at += n
	}
	s.Text = b.String()
	return s
}

// next is the length of the next piece of a text, and how it is shown.
func next(raw string, at int, skip *[][]int, ends bool) (n int, shown string) {
	if len(*skip) > 0 && (*skip)[0][0] == at {
		end := (*skip)[0][1]
		*skip = (*skip)[1:]
		return end - at, ""
	}
	r, n := utf8.DecodeRuneInString(raw[at:])
	switch {
	case r == utf8.RuneError && n == 1:
		for more := n; r == utf8.RuneError && more == 1; n++ {
			r, more = utf8.DecodeRuneInString(raw[at+n:])
		}
		return n - 1, "\uFFFD"
	case hides(r):
		return n, ""
	case ends && r == '\r' && strings.HasPrefix(raw[at+1:], "\n"):
		return 2, "\n"
	}
	return n, raw[at : at+n]
}

// Range is where a piece of what is shown stands in the text. What is not shown belongs
// to it only between its first and its last character.
func (s Seen) Range(from, to int) (rawFrom, rawTo int) {
	if from == to {
		at := s.end(from)
		return at, at
	}
	rawFrom, rawTo = from, s.end(to)
	if i := sort.Search(len(s.odd), func(i int) bool { return s.odd[i].seen > from }); i > 0 {
		u := s.odd[i-1]
		if rawFrom = u.raw; u.seen != from || u.seenLen == 0 {
			rawFrom += u.rawLen + from - u.seen - u.seenLen
		}
	}
	return rawFrom, rawTo
}

// end is where the character before a place ends.
func (s Seen) end(at int) int {
	i := sort.Search(len(s.odd), func(i int) bool { return s.odd[i].seen+s.odd[i].seenLen > at || s.odd[i].seen == at })
	if i == 0 {
		return at
	}
	u := s.odd[i-1]
	return u.raw + u.rawLen + at - u.seen - u.seenLen
}

// Hidden is what of a piece of the text is not shown.
func (s Seen) Hidden(rawFrom, rawTo int) (n int) {
	for _, u := range s.odd {
		if u.seenLen == 0 && u.raw >= rawFrom && u.raw < rawTo {
			n++
		}
	}
	return n
}

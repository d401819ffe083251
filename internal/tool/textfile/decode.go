// Package textfile is the one place that turns bytes into text and back: which encoding
// they are in, what of the text is shown, and where that stands in the file.
package textfile

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// Text is what a file holds.
type Text struct {
	// Value is the text in UTF-8, with the file's own line ends. Bytes of a UTF-8 file
	// that are no characters are in it as they are.
	Value string
	// Encoding is the name of the encoding; Guessed means that nothing states it.
	Encoding string
	Guessed  bool

	mark []byte            // the byte order mark
	enc  encoding.Encoding // nil = UTF-8
}

// marks are the byte order marks, the longer one first.
var marks = []struct {
	mark string
	name string
	enc  encoding.Encoding
}{
	{"\xef\xbb\xbf", "UTF-8 with a byte order mark", nil},
	{"\xff\xfe\x00\x00", "UTF-32LE", utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
	{"\x00\x00\xfe\xff", "UTF-32BE", utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	{"\xff\xfe", "UTF-16LE", utf16LE},
	{"\xfe\xff", "UTF-16BE", utf16BE},
}

var (
	utf16LE = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	utf16BE = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
)

// looked is how much of a file tells its encoding.
const looked = 8000

// Decode reads a file. A byte order mark decides; else what is declared outside of it (a
// charset of HTTP, "" = nothing); else its shape tells UTF-16; else valid UTF-8 is UTF-8;
// else it declares an encoding in itself; else it is windows-1252, which Latin-1 is in.
func Decode(data []byte, declared string) Text {
	for _, m := range marks {
		if rest, has := bytes.CutPrefix(data, []byte(m.mark)); has {
			t := decode(rest, m.name, m.enc)
			t.mark = []byte(m.mark)
			return t
		}
	}
	if enc, name, known := lookup(declared); known {
		return decode(data, name, enc)
	}
	if t, is := utf16(data); is {
		return t
	}
	if utf8.Valid(data) {
		return Text{Value: string(data), Encoding: "UTF-8"}
	}
	if enc, name, known := lookup(Declared(data)); known && enc != nil {
		return decode(data, name, enc)
	}
	if mostlyUTF8(data) {
		return Text{Value: string(data), Encoding: "UTF-8"}
	}
	t := decode(data, "windows-1252", charmap.Windows1252)
	if strings.Contains(t.Value, "\uFFFD") { // a few bytes are nothing in it; in Latin-1 all are something
		t = decode(data, "ISO-8859-1", charmap.ISO8859_1)
	}
	t.Guessed = true
	return t
}

// lookup finds an encoding by its name; nil is UTF-8. A name that looks for a mark first is
// that of ours, which does not.
func lookup(label string) (enc encoding.Encoding, name string, known bool) {
	enc, err := htmlindex.Get(label)
	if err != nil || enc == encoding.Replacement {
		return nil, "", false
	}
	if name, err = htmlindex.Name(enc); err != nil {
		return nil, "", false
	}
	if ours, has := map[string]encoding.Encoding{"utf-8": nil, "utf-16le": utf16LE, "utf-16be": utf16BE}[name]; has {
		enc = ours
	}
	return enc, name, true
}

func decode(data []byte, name string, enc encoding.Encoding) Text {
	t := Text{Value: string(data), Encoding: name, enc: enc}
	if enc != nil {
		if out, err := enc.NewDecoder().Bytes(data); err == nil {
			t.Value = string(out)
		}
	}
	return t
}

// declaration is how a text states its own encoding: XML, HTML, CSS, and what editors
// and Python read in a comment.
var declaration = regexp.MustCompile(`(?i)(?:^\s*<\?xml[^>]*\sencoding\s*=\s*["']?|<meta[^>]*\bcharset\s*=\s*["']?|^@charset\s+["']|^(?:[^\n]*\n)?[ \t]*[#/;*-].*?\bcoding[:=][ \t]*)([-\w.:]+)`)

// Declared is the encoding that the beginning of a text states, "" = none.
func Declared(data []byte) string {
	if m := declaration.FindSubmatch(data[:min(len(data), 2048)]); m != nil {
		return string(m[1])
	}
	return ""
}

// utf16 recognises UTF-16 without a mark: of most characters the high byte is zero.
func utf16(data []byte) (Text, bool) {
	head := data[:min(len(data), looked)&^1]
	var zeros [2]int
	for i, b := range head {
		if b == 0 {
			zeros[i&1]++
		}
	}
	name, enc := "UTF-16LE", utf16LE
	if zeros[0] > zeros[1] {
		name, enc = "UTF-16BE", utf16BE
	}
	if sum := zeros[0] + zeros[1]; len(data)%2 != 0 || min(zeros[0], zeros[1])*20 > sum || sum == 0 || sum*3 < len(head) {
		return Text{}, false
	}
	t := decode(data, name, enc)
	t.Guessed = true
	for _, r := range t.Value[:min(len(t.Value), looked)] {
		if hides(r) && r != '\f' {
			return Text{}, false // no text
		}
	}
	return t, true
}

// mostlyUTF8 reports that a text has more characters of several bytes than bytes that
// are none: it is UTF-8 that was damaged.
func mostlyUTF8(data []byte) bool {
	more := 0
	for _, r := range string(data) {
		switch {
		case r == utf8.RuneError:
			more--
		case r >= utf8.RuneSelf:
			more++
		}
	}
	return more > 0
}

// Binary looks for NUL near the start, as git and grep do.
func (t Text) Binary() bool {
	return strings.IndexByte(t.Value[:min(len(t.Value), looked)], 0) >= 0
}

// Foreign reports that the file is not UTF-8.
func (t Text) Foreign() bool { return t.enc != nil }

// Exact reports that the file's bytes can be made of its text again.
func (t Text) Exact(data []byte) bool {
	out, err := t.Encode(t.Value)
	return err == nil && bytes.Equal(out, data)
}

// As is how a new text is written for a file that is not UTF-8: as it newly declares of
// itself, else as the file is written.
func (t Text) As(value string) Text {
	now := Declared([]byte(value))
	enc, name, known := lookup(now)
	if known && t.enc != nil && len(t.mark) == 0 && enc != utf16LE && enc != utf16BE && !strings.EqualFold(now, Declared([]byte(t.Value))) {
		t.enc, t.Encoding, t.Guessed = enc, name, false
	}
	return t
}

// Encode writes a text as the file is written: in its encoding, with its mark.
func (t Text) Encode(value string) ([]byte, error) {
	body := []byte(value)
	if t.enc != nil {
		enc := t.enc.NewEncoder()
		var err error
		if body, err = enc.Bytes(body); err != nil {
			for _, r := range value {
				if _, missing := enc.String(string(r)); missing != nil {
					return nil, fmt.Errorf("%s has no character %q", t.Encoding, r)
				}
			}
			return nil, fmt.Errorf("it cannot be written as %s: %w", t.Encoding, err)
		}
	}
	return append(bytes.Clone(t.mark), body...), nil
}

// LineEnd is how most lines of a text end. Old Macs wrote a lone carriage return.
func LineEnd(value string) string {
	windows, all := strings.Count(value, "\r\n"), strings.Count(value, "\n")
	switch {
	case all == 0 && strings.Contains(value, "\r"):
		return "\r"
	case windows*2 > all:
		return "\r\n"
	}
	return "\n"
}

package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonNear is how many characters of the text an error shows.
const jsonNear = 24

type jsonReader struct {
	s       string
	at      int
	depth   int
	lenient bool // takes the slips of models
	out     []byte
	changed bool // out says something else than s
}

func (r *jsonReader) whole() (string, error) {
	r.out = make([]byte, 0, len(r.s))
	if err := r.value(); err != nil {
		return "", err
	}
	for r.blanks(); r.at < len(r.s); r.blanks() {
		if !r.lenient {
			return "", r.wrong("nothing may follow the value")
		}
		r.changed = true
		if strings.Trim(r.s[r.at:], "}] \t\r\n") == "" {
			break
		}
		if err := r.again(); err != nil {
			return "", err
		}
	}
	if r.changed {
		return string(r.out), nil
	}
	return r.s, nil
}

// again reads a value behind the first one, which must say the same.
func (r *jsonReader) again() error {
	from, first := r.at, string(r.out)
	if first[0] != '{' {
		return r.wrong("nothing may follow the value")
	}
	r.out = r.out[:0]
	if err := r.value(); err != nil {
		return err
	}
	switch second := string(r.out); {
	case first == "{}", first == second:
	case second == "{}":
		r.out = append(r.out[:0], first...)
	default:
		r.at = from
		return r.wrong("a second value follows the first; make a call for each")
	}
	return nil
}

func (r *jsonReader) value() error {
	r.blanks()
	if r.at == len(r.s) {
		return r.wrong("it ends too early")
	}
	switch c := r.s[r.at]; {
	case c == '{':
		return r.nested(r.object)
	case c == '[':
		return r.nested(r.array)
	case c == '"', c == '\'' && r.lenient:
		return r.text()
	case c == '-', c >= '0' && c <= '9':
		return r.number()
	}
	return r.word()
}

func (r *jsonReader) nested(read func() error) error {
	if r.depth++; r.depth > maxNesting {
		return r.wrong(fmt.Sprintf("it is nested more than %d deep", maxNesting))
	}
	err := read()
	r.depth--
	return err
}

func (r *jsonReader) array() error {
	r.put('[')
	for n := 0; ; n++ {
		if done, err := r.next(n, ']'); done || err != nil {
			return err
		}
		if err := r.value(); err != nil {
			return err
		}
	}
}

// member is a key with its value: where it stands in what is written.
type member struct {
	key      string
	from, to int
}

func (r *jsonReader) object() error {
	start := len(r.out)
	r.put('{')
	var members []member
	last := map[string]int{}
	for n := 0; ; n++ {
		done, err := r.next(n, '}')
		if err != nil {
			return err
		}
		if done {
			break
		}
		m := member{from: len(r.out)}
		if m.key, err = r.key(); err != nil {
			return err
		}
		if err := r.value(); err != nil {
			return err
		}
		m.to = len(r.out)
		last[m.key] = n
		members = append(members, m)
	}
	if len(last) < len(members) {
		r.unique(start, members, last)
	}
	return nil
}

// unique writes an object anew that has a key twice.
func (r *jsonReader) unique(start int, members []member, last map[string]int) {
	r.changed = true
	object := []byte{'{'}
	for i, m := range members {
		if last[m.key] != i {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(object, r.out[m.from:m.to]...)
	}
	r.out = append(append(r.out[:start], object...), '}')
}

// next goes on to the next element, the one of number n, or to the end of the list.
func (r *jsonReader) next(n int, closing byte) (done bool, err error) {
	r.blanks()
	comma := n > 0 && r.at < len(r.s) && r.s[r.at] == ','
	if comma {
		r.at++
		r.blanks()
	}
	switch {
	case r.at == len(r.s):
		return false, r.wrong("it ends too early")
	case r.s[r.at] == closing && (!comma || r.lenient):
		r.changed = r.changed || comma
		r.put(closing)
		return true, nil
	case n > 0 && !comma:
		return false, r.wrong(fmt.Sprintf("a comma or %c is missing", closing))
	case n > 0:
		r.out = append(r.out, ',')
	}
	return false, nil
}

var bareKey = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*`)

func (r *jsonReader) key() (key string, err error) {
	from := len(r.out)
	word := ""
	if r.lenient {
		word = bareKey.FindString(r.s[r.at:])
	}
	switch c := r.s[r.at]; {
	case word != "":
		r.at, r.changed = r.at+len(word), true
		r.out = append(append(append(r.out, '"'), word...), '"')
	case c == '"', c == '\'' && r.lenient:
		err = r.text()
	default:
		err = r.wrong("a key in double quotes is missing")
	}
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(r.out[from:], &key); err != nil {
		return "", err
	}
	if r.blanks(); r.at == len(r.s) || r.s[r.at] != ':' {
		return "", r.wrong("a colon is missing")
	}
	r.put(':')
	return key, nil
}

func (r *jsonReader) text() error {
	begin, quote := r.at, r.s[r.at]
	r.at++
	r.changed = r.changed || quote != '"'
	r.out = append(r.out, '"')
	for r.at < len(r.s) {
		from := r.at
		for r.at < len(r.s) && r.s[r.at] >= ' ' && r.s[r.at] < utf8.RuneSelf && r.s[r.at] != '\\' && r.s[r.at] != '"' && r.s[r.at] != '\'' {
			r.at++
		}
		if r.out = append(r.out, r.s[from:r.at]...); r.at == len(r.s) {
			break
		}
		switch c := r.s[r.at]; {
		case c == quote:
			r.put('"')
			return nil
		case c == '\\':
			if err := r.escape(); err != nil {
				return err
			}
		case c == '"':
			r.out = append(r.out, '\\')
			r.put(c)
		case c < ' ' && !r.lenient:
			return r.wrong("a control character stands in a text")
		case c < ' ':
			r.at, r.changed = r.at+1, true
			r.char(rune(c))
		case c == '\'':
			r.put(c)
		default:
			char, size := utf8.DecodeRuneInString(r.s[r.at:])
			r.changed = r.changed || char == utf8.RuneError && size == 1
			r.out = utf8.AppendRune(r.out, char)
			r.at += size
		}
	}
	r.at = begin
	return r.wrong("the text that begins here does not end")
}

func (r *jsonReader) char(c rune) {
	if c == 0 {
		r.out = append(r.out, "\uFFFD"...)
		return
	}
	r.out = fmt.Appendf(r.out, `\u%04x`, c)
}

func (r *jsonReader) escape() error {
	rest := r.s[r.at:]
	switch {
	case len(rest) > 1 && strings.IndexByte(`"\/bfnrt`, rest[1]) >= 0:
		r.out = append(r.out, rest[:2]...)
		r.at += 2
		return nil
	case len(rest) > 1 && rest[1] == '\'' && r.lenient:
		r.out = append(r.out, '\'')
		r.at, r.changed = r.at+2, true
		return nil
	}
	unit, ok := codeUnit(rest)
	if !ok {
		return r.wrong("this escape is unknown; a backslash is written \\\\")
	}
	size := 6
	if second, ok := codeUnit(rest[6:]); ok && utf16.DecodeRune(unit, second) != utf8.RuneError {
		size = 12
	}
	r.at += size
	if size == 6 && utf16.IsSurrogate(unit) || unit == 0 {
		r.changed = true
		r.char(0)
		return nil
	}
	r.out = append(r.out, rest[:size]...)
	return nil
}

// codeUnit is the value of the escape \uXXXX at the start of s.
func codeUnit(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func (r *jsonReader) number() error {
	size := strings.IndexFunc(r.s[r.at:], func(c rune) bool { return !strings.ContainsRune("+-.0123456789eE", c) })
	if size < 0 {
		size = len(r.s) - r.at
	}
	number := r.s[r.at : r.at+size]
	if !jsonNumber.MatchString(number) {
		return r.wrong("this is no JSON number")
	}
	if _, err := strconv.ParseFloat(number, 64); err != nil {
		return r.wrong("this number is larger than JSON parsers take")
	}
	r.out = append(r.out, number...)
	r.at += size
	return nil
}

var jsonWords = map[string]string{"true": "true", "false": "false", "null": "null"}

var pythonWords = map[string]string{"True": "true", "False": "false", "None": "null"}

func (r *jsonReader) word() error {
	word := bareKey.FindString(r.s[r.at:])
	means, ok := jsonWords[word]
	if !ok && r.lenient {
		means, ok = pythonWords[word]
		r.changed = true
	}
	if !ok {
		return r.wrong("no value begins like this")
	}
	r.out = append(r.out, means...)
	r.at += len(word)
	return nil
}

func (r *jsonReader) put(c byte) {
	r.out = append(r.out, c)
	r.at++
}

func (r *jsonReader) blanks() {
	for r.at < len(r.s) && strings.IndexByte(" \t\r\n", r.s[r.at]) >= 0 {
		r.at++
	}
}

// wrong says what is wrong where the reader stands, counted in characters from 1.
func (r *jsonReader) wrong(what string) error {
	near := []rune(CleanText(r.s[r.at:min(len(r.s), r.at+4*jsonNear)]))
	if len(near) == 0 { // the end: what stands before it
		near = []rune(CleanText(r.s[max(0, r.at-jsonNear):]))
	}
	return Errorf(CodeInvalid, "syntax error at character %d near %q: %s",
		utf8.RuneCountInString(r.s[:r.at])+1, string(near[:min(len(near), jsonNear)]), what)
}

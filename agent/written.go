package agent

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"regexp"
	"unicode/utf16"
	"unicode/utf8"
)

// NotTextError says where a file that a person writes is no text.
type NotTextError struct{ Line int }

// Error says what to do.
func (e *NotTextError) Error() string {
	return fmt.Sprintf("the file is not valid UTF-8, see line %d: save it as UTF-8", e.Line)
}

// goTypes is how readers of JSON and YAML speak of Go's types.
var goTypes = regexp.MustCompile(`(?:(\S+): )?cannot unmarshal (\w+)(?: \S+)? into Go (?:value|struct field \w*\.(\S+)) of type \*?(string|bool|int|float|\[\]|map|)\S*`)

// kinds are words for Go's types by how they begin. Those with a name are of two kinds.
var kinds = map[string]string{"string": "text", "bool": "true or false", "int": "a whole number", "float": "a number", "[]": "an array", "map": "an object", "": "an object or text"}

// PlainProblem is the text of an error of reading what a person wrote, with words of the file
// in place of Go's types.
func PlainProblem(problem string) string {
	return goTypes.ReplaceAllStringFunc(problem, func(text string) string {
		m := goTypes.FindStringSubmatch(text)
		if m[1] == "json" || m[1] == "" {
			m[1] = cmp.Or(m[3], "it")
		}
		return m[1] + " must be " + kinds[m[4]] + ", not " + m[2]
	})
}

// WrittenText is the text of a file that a person writes, such as settings, agents and
// tables, as editors of all systems save it: a byte order mark is left out, UTF-16 with
// such a mark is UTF-8, and lines end in \n.
func WrittenText(data []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		data = fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		data = fromUTF16(data[2:], binary.BigEndian)
	default:
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	}
	if bytes.IndexByte(data, '\r') >= 0 {
		data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	if utf8.Valid(data) {
		return data, nil
	}
	good, _, _ := bytes.Cut(bytes.ToValidUTF8(data, []byte{0}), []byte{0})
	return nil, &NotTextError{Line: 1 + bytes.Count(good, []byte("\n"))}
}

func fromUTF16(data []byte, order binary.ByteOrder) []byte {
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}

package openai

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// replacement stands for bytes that are no character.
const replacement = "\uFFFD"

// surrogate is the escape of half a character beyond the basic plane.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// unquote reads a JSON string. A character that was cut between two events keeps
// its bytes, half a surrogate pair as if it were a character: joiner joins them.
// encoding/json puts U+FFFD in place of both halves.
func unquote(b []byte) (string, error) {
	if utf8.Valid(b) && !surrogate.Match(b) {
		var s string
		err := json.Unmarshal(b, &s)
		return s, err
	}
	b = b[1 : len(b)-1]
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			break
		}
		out = append(out, b[:i]...)
		b = b[i:]
		if b[1] != 'u' {
			out, b = append(out, unescaped[b[1]]), b[2:]
			continue
		}
		r := hexRune(b)
		b = b[6:]
		if utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, hexRune(b)); pair != utf8.RuneError {
				r, b = pair, b[6:]
			}
		}
		if utf16.IsSurrogate(r) {
			out = append(out, 0xED, 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return string(append(out, b...)), nil
}

var unescaped = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hexRune is the value of the escape \uXXXX at the start of b, or 0.
func hexRune(b []byte) rune {
	var v [2]byte
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	if _, err := hex.Decode(v[:], b[2:6]); err != nil {
		return 0
	}
	return rune(v[0])<<8 | rune(v[1])
}

// joiner makes valid text of pieces that were cut anywhere.
type joiner struct{ rest string }

// add returns what is complete of the text so far.
func (j *joiner) add(s string) string {
	if j.rest == "" && utf8.ValidString(s) {
		return s
	}
	s = joinPairs(j.rest + s)
	cut := len(s) - begun(s)
	j.rest = strings.Clone(s[cut:])
	return strings.ToValidUTF8(s[:cut], replacement)
}

// end returns what stands for a character that never was complete.
func (j *joiner) end() string {
	if j.rest == "" {
		return ""
	}
	j.rest = ""
	return replacement
}

// joinPairs makes one character of two halves that follow each other.
func joinPairs(s string) string {
	for i := 0; i+5 < len(s); i++ {
		if s[i] != 0xED || s[i+3] != 0xED {
			continue
		}
		if pair := utf16.DecodeRune(half(s[i:]), half(s[i+3:])); pair != utf8.RuneError {
			s = s[:i] + string(pair) + s[i+6:]
		}
	}
	return s
}

func half(s string) rune { return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F) }

// begun is the number of bytes at the end of s that may be the start of a character.
func begun(s string) int {
	n := len(s)
	if n >= 3 && s[n-3] == 0xED && s[n-2] >= 0xA0 && s[n-2] < 0xB0 && s[n-1] >= 0x80 && s[n-1] < 0xC0 {
		return 3 // the first half of a pair
	}
	for i := 1; i <= min(3, n); i++ {
		if utf8.RuneStart(s[n-i]) {
			if !utf8.FullRuneInString(s[n-i:]) {
				return i
			}
			break
		}
	}
	return 0
}

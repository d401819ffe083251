package llmtest

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// deepest is how deep JSON may be nested for the strictest parsers.
const deepest = 80

// Strict reads JSON as the strictest parsers do: UTF-8 without NUL and half surrogate
// pairs, numbers a double can hold, no key twice, no deep nesting, nothing behind it.
func Strict(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("not valid UTF-8")
	}
	rest, err := strictValue(text, 0)
	if err == nil && skip(rest) != "" {
		err = fmt.Errorf("after the value comes %.20q", rest)
	}
	return err
}

func skip(s string) string { return strings.TrimLeft(s, " \t\r\n") }

var strictNumber = regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?`)

// strictValue reads the value that s begins with and returns what is behind it.
func strictValue(s string, depth int) (string, error) {
	s = skip(s)
	switch {
	case depth > deepest:
		return "", errors.New("nested too deep")
	case s == "":
		return "", errors.New("a value is missing")
	case s[0] == '{':
		return strictList(s[1:], "}", depth, map[string]bool{})
	case s[0] == '[':
		return strictList(s[1:], "]", depth, nil)
	case s[0] == '"':
		_, rest, err := strictString(s)
		return rest, err
	}
	for _, word := range []string{"true", "false", "null"} {
		if rest, ok := strings.CutPrefix(s, word); ok {
			return rest, nil
		}
	}
	number := strictNumber.FindString(s)
	if f, err := strconv.ParseFloat(number, 64); err != nil || math.IsInf(f, 0) {
		return "", fmt.Errorf("%.20q is not a number, or is too large for a double", s)
	}
	return s[len(number):], nil
}

// strictList reads an array, or with keys an object.
func strictList(s, end string, depth int, keys map[string]bool) (string, error) {
	s = skip(s)
	if rest, ok := strings.CutPrefix(s, end); ok {
		return rest, nil
	}
	for {
		if keys != nil {
			key, rest, err := strictString(skip(s))
			if err != nil {
				return "", err
			}
			if keys[key] {
				return "", fmt.Errorf("the object has the key %q twice", key)
			}
			keys[key] = true
			if s = skip(rest); !strings.HasPrefix(s, ":") {
				return "", errors.New("a colon is missing")
			}
			s = s[1:]
		}
		rest, err := strictValue(s, depth+1)
		if err != nil {
			return "", err
		}
		s = skip(rest)
		if rest, ok := strings.CutPrefix(s, end); ok {
			return rest, nil
		}
		if !strings.HasPrefix(s, ",") {
			return "", fmt.Errorf("a comma or %s is missing", end)
		}
		s = s[1:]
	}
}

// strictString reads the string that s begins with.
func strictString(s string) (text, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errors.New("a string is missing")
	}
	var b strings.Builder
	for s = s[1:]; s != ""; {
		n := strings.IndexAny(s, "\"\\")
		if n < 0 {
			break
		}
		if i := strings.IndexFunc(s[:n], func(r rune) bool { return r < ' ' }); i >= 0 {
			return "", "", fmt.Errorf("the character %q stands in a string", s[i])
		}
		b.WriteString(s[:n])
		if s = s[n:]; s[0] == '"' {
			return b.String(), s[1:], nil
		}
		char, size, err := strictEscape(s)
		if err != nil {
			return "", "", err
		}
		b.WriteRune(char)
		s = s[size:]
	}
	return "", "", errors.New("a string does not end")
}

var shortEscapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func strictEscape(s string) (char rune, size int, err error) {
	if char, ok := shortEscapes[(s + " ")[1]]; ok {
		return char, 2, nil
	}
	unit := func(s string) rune {
		if len(s) < 6 || s[:2] != `\u` {
			return 0
		}
		n, err := strconv.ParseUint(s[2:6], 16, 16)
		if err != nil {
			return 0
		}
		return rune(n)
	}
	first := unit(s)
	switch {
	case first == 0:
		return 0, 0, fmt.Errorf("%.6q is not an escape, or it means NUL", s)
	case !utf16.IsSurrogate(first):
		return first, 6, nil
	}
	if char = utf16.DecodeRune(first, unit(s[6:])); char == utf8.RuneError {
		return 0, 0, fmt.Errorf("%.6q is half a surrogate pair", s)
	}
	return char, 12, nil
}

package agent

import "strings"

// JSONLimit bounds JSON text that others wrote, before anything reads it.
type JSONLimit struct {
	// Depth is how deep arrays and objects may be nested.
	Depth int
	// Values is how many values and names there may be; 0 = any number, and numbers
	// of any length.
	Values int
}

// Said bounds what people, models and servers send: bodies of requests, arguments
// of tools, answers.
var Said = JSONLimit{Depth: 200, Values: 500_000}

// longestNumber and longestExponent are digits. To compare a number costs as much
// time as all the digits that it stands for.
const (
	longestNumber   = 1000
	longestExponent = 3
)

// Check says what about a text goes beyond the limit. It reads the text once and
// does not ask whether it is JSON.
func (l JSONLimit) Check(text []byte) error {
	depth, values := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			continue
		case c == '"':
			i = stringEnd(text, i)
		case c == '-' || '0' <= c && c <= '9':
			end, long := numberEnd(text, i)
			if long && l.Values > 0 {
				return Errorf(CodeInvalid, "its JSON has a number of more than %d digits, or with an exponent of more than %d", longestNumber, longestExponent)
			}
			i = end
		case 'a' <= c && c <= 'z':
			for i+1 < len(text) && 'a' <= text[i+1] && text[i+1] <= 'z' {
				i++
			}
		default:
			continue
		}
		if values++; l.Values > 0 && values > l.Values {
			return Errorf(CodeInvalid, "its JSON has more than %d values", l.Values)
		}
		if depth > l.Depth {
			return Errorf(CodeInvalid, "its JSON is nested more than %d levels deep", l.Depth)
		}
	}
	return nil
}

func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// numberEnd is the last place of the number that begins at i, and whether it is too long.
func numberEnd(text []byte, i int) (end int, long bool) {
	start, exponent := i, -1
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == 'e' || c == 'E':
			exponent = i
		case (c == '+' || c == '-') && exponent >= 0:
			exponent = i
		case !strings.ContainsRune("0123456789.+-", rune(c)):
			return i - 1, long
		}
		long = long || i-start > longestNumber || exponent >= 0 && i-exponent > longestExponent
	}
	return i - 1, long
}

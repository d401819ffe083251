package openai

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// chunk is a piece of a streamed reply, or a whole one, as leniently read as
// possible: what providers vary is raw or one of the tolerant types below.
type chunk struct {
	Object  text            `json:"object"`
	Type    text            `json:"type"`
	Model   text            `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
	Errors  json.RawMessage `json:"errors"`
	Groq    xGroq           `json:"x_groq"`
}

// xGroq holds what Groq adds; anything but an object holds nothing.
type xGroq struct{ Usage, Error json.RawMessage }

func (x *xGroq) UnmarshalJSON(b []byte) error {
	type plain xGroq
	var p plain
	if json.Unmarshal(b, &p) == nil {
		*x = xGroq(p)
	}
	return nil
}

type choice struct {
	Index        number          `json:"index"`
	Delta        *delta          `json:"delta"`
	Message      *delta          `json:"message"` // in replies that are not streamed
	FinishReason text            `json:"finish_reason"`
	Usage        json.RawMessage `json:"usage"` // Moonshot
	Error        json.RawMessage `json:"error"` // OpenRouter
}

type delta struct {
	Content          text          `json:"content"`
	Refusal          text          `json:"refusal"`
	ReasoningContent text          `json:"reasoning_content"`
	Reasoning        text          `json:"reasoning"`
	ToolCalls        pieces        `json:"tool_calls"`
	FunctionCall     *functionPart `json:"function_call"` // the old form
}

// pieces reads a list of pieces, or one that stands alone.
type pieces []callPiece

func (ps *pieces) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, (*[]callPiece)(ps))
	}
	*ps = make(pieces, 1)
	return json.Unmarshal(b, &(*ps)[0])
}

type callPiece struct {
	Index    *number         `json:"index"`
	ID       text            `json:"id"`
	Function functionPart    `json:"function"`
	Extra    json.RawMessage `json:"extra_content"`
}

type functionPart struct {
	Name      text      `json:"name"`
	Arguments arguments `json:"arguments"`
}

// text reads a string, null, a number, or a list of parts with text.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	switch b[0] {
	case '"':
		s, err := unquote(b)
		*t = text(s)
		return err
	case '[':
		var parts []json.RawMessage
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
		var sb strings.Builder
		for _, p := range parts {
			var one text
			if err := one.UnmarshalJSON(p); err != nil {
				return err
			}
			sb.WriteString(string(one))
		}
		*t = text(sb.String())
	case '{':
		var part struct {
			Text json.RawMessage `json:"text"`
		}
		if err := json.Unmarshal(b, &part); err != nil {
			return err
		}
		if len(part.Text) > 0 && part.Text[0] == '"' {
			return t.UnmarshalJSON(part.Text)
		}
	case 'n', 't', 'f': // null; true and false mean nothing here
	default:
		*t = text(b)
	}
	return nil
}

// arguments reads a string, or any other JSON value as its text.
type arguments struct {
	text   string
	object bool // it came as an object, not as a string
}

func (a *arguments) UnmarshalJSON(b []byte) (err error) {
	*a = arguments{}
	switch {
	case b[0] == '"':
		a.text, err = unquote(b)
		return err
	case string(b) == "null":
		return nil
	}
	var sb bytes.Buffer
	if err := json.Compact(&sb, b); err != nil {
		return err
	}
	*a = arguments{sb.String(), b[0] == '{'}
	return nil
}

// number reads an integer, a float or a string with one; anything else is 0.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	*n = 0
	if f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64); err == nil && f > -1e15 && f < 1e15 {
		*n = number(f)
	}
	return nil
}

// present reports whether a raw field holds something.
func present(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "{}", `""`, "false", "[]":
		return false
	}
	return true
}

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

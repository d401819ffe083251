package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
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

package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
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
	Groq    struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"x_groq"`
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
	ToolCalls        []callPiece   `json:"tool_calls"`
	FunctionCall     *functionPart `json:"function_call"` // the old form
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
		return json.Unmarshal(b, (*string)(t))
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
			return json.Unmarshal(part.Text, (*string)(t))
		}
	case 'n', 't', 'f': // null; true and false mean nothing here
	default:
		*t = text(b)
	}
	return nil
}

// arguments reads a string, or any other JSON value as its text.
type arguments string

func (a *arguments) UnmarshalJSON(b []byte) error {
	*a = ""
	switch {
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(a))
	case string(b) == "null":
		return nil
	}
	var sb bytes.Buffer
	if err := json.Compact(&sb, b); err != nil {
		return err
	}
	*a = arguments(sb.String())
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

// readUsage reads the forms of usage providers use; ok is false if there is none.
func readUsage(raw json.RawMessage) (usage agent.Usage, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return agent.Usage{}, false
	}
	var u struct {
		Prompt     number  `json:"prompt_tokens"`
		Completion number  `json:"completion_tokens"`
		Total      number  `json:"total_tokens"`
		Input      number  `json:"input_tokens"`
		Output     number  `json:"output_tokens"`
		CacheHit   number  `json:"prompt_cache_hit_tokens"` // DeepSeek
		Cached     number  `json:"cached_tokens"`           // Moonshot
		Cost       float64 `json:"cost"`                    // OpenRouter
		PromptMore struct {
			Cached number `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionMore struct {
			Reasoning number `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		return agent.Usage{}, false
	}
	usage = agent.Usage{
		PromptTokens:     max(0, int64(u.Prompt), int64(u.Input)),
		CompletionTokens: max(0, int64(u.Completion), int64(u.Output)),
		TotalTokens:      max(0, int64(u.Total)),
		CachedTokens:     max(0, int64(u.CacheHit), int64(u.Cached), int64(u.PromptMore.Cached)),
		ReasoningTokens:  max(0, int64(u.CompletionMore.Reasoning)),
		Price:            max(0, u.Cost),
	}
	if usage.TotalTokens == 0 {
		usage.TotalTokens = usage.PromptTokens + usage.CompletionTokens
	}
	return usage, usage.TotalTokens > 0
}

// present reports whether a raw field holds something.
func present(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "{}", `""`, "false", "[]":
		return false
	}
	return true
}

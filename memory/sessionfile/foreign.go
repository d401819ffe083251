package sessionfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/jsontime"
)

// foreign reports whether a message has parts as other programs write them.
func foreign(m agent.Message) bool {
	for _, p := range m.Content.Parts {
		if p.Type != "text" && (p.Type != "image_url" || p.ImageURL == nil) {
			return true
		}
	}
	return false
}

// otherPart is a part of a message of other programs: of Anthropic's and OpenAI's APIs
// and of the AI SDK.
type otherPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	Refusal  string          `json:"refusal"`
	Summary  []agent.Part    `json:"summary"`
	ImageURL json.RawMessage `json:"image_url"`

	ID        string          `json:"id"`
	CallID    string          `json:"toolCallId"`
	UseID     string          `json:"tool_use_id"`
	Name      string          `json:"name"`
	ToolName  string          `json:"toolName"`
	Input     json.RawMessage `json:"input"`
	Args      json.RawMessage `json:"args"`
	Content   json.RawMessage `json:"content"`
	Output    json.RawMessage `json:"output"`
	Result    json.RawMessage `json:"result"`
	IsError   bool            `json:"is_error"`
	IsErrorAI bool            `json:"isError"`
}

// messagesOf reads the messages of a file one by one. Reasoning, calls and results that
// other programs write as parts become what they are here; what cannot is refused.
func messagesOf(list []json.RawMessage) (out []agent.Message, err error) {
	for i, raw := range list {
		var m agent.Message
		var x struct {
			Content   json.RawMessage `json:"content"`
			Reasoning string          `json:"reasoning_content"`
		}
		if err := jsontime.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		if err := json.Unmarshal(raw, &x); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		if m.Reasoning == "" {
			m.Reasoning = x.Reasoning
		}
		if !foreign(m) {
			out = append(out, m)
			continue
		}
		var parts []otherPart
		if err := json.Unmarshal(x.Content, &parts); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		m.Content = agent.Content{Parts: []agent.Part{}}
		results := 0
		for _, p := range parts {
			result, err := p.into(&m)
			if err != nil {
				return nil, fmt.Errorf("message %d %w", i+1, err)
			}
			if result != nil {
				results++
				result.Timestamp = m.Timestamp
				out = append(out, *result)
			}
		}
		m.Content = simple(m)
		if results == 0 || !m.Content.IsEmpty() || len(m.ToolCalls) > 0 {
			out = append(out, m)
		}
	}
	return out, nil
}

// into adds a part to a message, or makes a result of it, which is a message of its own.
func (p otherPart) into(m *agent.Message) (result *agent.Message, err error) {
	switch p.Type {
	case "text", "input_text", "output_text", "refusal":
		m.Content.Parts = append(m.Content.Parts, agent.Part{Type: "text", Text: p.Text + p.Refusal})
	case "image_url":
		var image agent.ImageURL
		if json.Unmarshal(p.ImageURL, &image) != nil && json.Unmarshal(p.ImageURL, &image.URL) != nil || image.URL == "" {
			return nil, fmt.Errorf("has an image without a URL: take it out")
		}
		m.Content.Parts = append(m.Content.Parts, agent.Part{Type: p.Type, ImageURL: &image})
	case "reasoning", "thinking":
		texts := []string{m.Reasoning, p.Text, p.Thinking}
		for _, s := range p.Summary {
			texts = append(texts, s.Text)
		}
		m.Reasoning = strings.TrimSpace(strings.Join(texts, "\n"))
	case "redacted_thinking", "step-start": // says nothing that anybody could read
	case "tool_use", "tool-call":
		m.ToolCalls = append(m.ToolCalls, agent.NewCall(first(p.ID, p.CallID), first(p.Name, p.ToolName), first(string(p.Input), string(p.Args), "{}")))
	case "tool_result", "tool-result":
		r := agent.Message{Role: agent.RoleTool, ToolCallID: first(p.UseID, p.CallID), Status: agent.CallSuccess, Content: resultText(first(string(p.Content), string(p.Output), string(p.Result)))}
		if p.IsError || p.IsErrorAI {
			r.Status, r.ErrorReason = agent.CallFailed, agent.ErrUnknown
		}
		return &r, nil
	default:
		return nil, fmt.Errorf("has a part of type %q, which this program does not know: take it out, or make it a part of type text", p.Type)
	}
	return nil, nil
}

// resultText is the text of a result: a string, parts of text, or else its JSON.
func resultText(raw string) agent.Content {
	var c agent.Content
	var valued struct {
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal([]byte(raw), &valued) == nil && len(valued.Value) > 0 {
		raw = string(valued.Value)
	}
	if json.Unmarshal([]byte(raw), &c) == nil && (c.Parts == nil || c.String() != "") {
		return agent.Text(c.String())
	}
	return agent.Text(raw)
}

// simple is a content without parts, if there is but text in it.
func simple(m agent.Message) agent.Content {
	switch parts := m.Content.Parts; {
	case len(parts) == 0 && len(m.ToolCalls) > 0:
		return agent.NullContent()
	case len(parts) == 0:
		return agent.Text("")
	case len(parts) == 1 && parts[0].Type == "text":
		return agent.Text(parts[0].Text)
	}
	return m.Content
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// ownMessages reads messages again if some of them are as other programs write them.
func ownMessages(list []agent.Message, data []byte, raw func() ([]json.RawMessage, error)) ([]agent.Message, error) {
	others := bytes.Contains(data, []byte(`"reasoning_content"`))
	for _, m := range list {
		others = others || foreign(m)
	}
	if !others {
		return list, nil
	}
	again, err := raw()
	if err != nil {
		return nil, err
	}
	return messagesOf(again)
}

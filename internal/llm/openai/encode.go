package openai

import (
	"crypto/sha256"
	"encoding/json"
	"regexp"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/spool-agents/spool/agent"
)

// wireRequest is go-openai's request. Written by hand is only what its types would
// lose (TestWhatGoOpenAILoses): messages, and temperatures of zero.
type wireRequest struct {
	goopenai.ChatCompletionRequest
	Messages    []wireMessage `json:"messages"`
	Temperature *float64      `json:"temperature,omitempty"`
	TopP        *float64      `json:"top_p,omitempty"`
}

func answerFormat(q Quirks, r agent.ModelRequest) *goopenai.ChatCompletionResponseFormat {
	schema := agent.HarmlessJSON(r.AnswerSchema)
	switch {
	case schema == nil, q.Format == "", q.FormatWithoutTools && len(r.Tools) > 0:
		return nil
	case q.Format == FormatObject:
		return &goopenai.ChatCompletionResponseFormat{Type: FormatObject}
	}
	return &goopenai.ChatCompletionResponseFormat{Type: FormatSchema, JSONSchema: &goopenai.ChatCompletionResponseFormatJSONSchema{Name: "answer", Schema: schema}}
}

// wireMessage always has its content: strict providers want the key, if only
// with null, and a string in tool messages.
type wireMessage struct {
	Role             agent.Role   `json:"role"`
	Content          any          `json:"content"` // of plain
	ReasoningContent *string      `json:"reasoning_content,omitempty"`
	Reasoning        *string      `json:"reasoning,omitempty"`
	ToolCalls        []agent.Call `json:"tool_calls,omitempty"`
	ToolCallID       string       `json:"tool_call_id,omitempty"`
}

// geminiNoSignature is the value Gemini documents for calls it did not make.
const geminiNoSignature = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

var emptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

func encode(model string, q Quirks, r agent.ModelRequest) ([]byte, error) {
	w := wireRequest{Temperature: r.Temperature, TopP: r.TopP}
	w.Model, w.Stream = model, r.Stream
	if r.Stream && !q.NoStreamOptions {
		w.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	}
	if r.MaxTokens != nil {
		if q.MaxCompletionTokens {
			w.MaxCompletionTokens = *r.MaxTokens
		} else {
			w.MaxTokens = *r.MaxTokens //nolint:staticcheck // the name that all but OpenAI's newest models know
		}
	}
	if q.NoSampling {
		w.Temperature, w.TopP = nil, nil
	}
	if w.Temperature != nil && q.MaxTemperature > 0 {
		w.Temperature = new(min(*w.Temperature, q.MaxTemperature))
	}
	w.ResponseFormat = answerFormat(q, r)
	for _, t := range r.Tools {
		w.Tools = append(w.Tools, goopenai.Tool{Type: goopenai.ToolTypeFunction, Function: &goopenai.FunctionDefinition{
			Name: t.Name, Description: agent.CleanText(t.Description), Parameters: objectSchema(t.Schema),
		}})
	}
	if q.NoEffortWithTools && len(w.Tools) > 0 {
		w.ReasoningEffort = "none"
	}
	w.Messages = make([]wireMessage, 0, len(r.Messages))
	for i := range r.Messages {
		m := &r.Messages[i]
		if q.AssistantAfterTool && m.Role == agent.RoleUser && i > 0 && r.Messages[i-1].Role == agent.RoleTool {
			w.Messages = append(w.Messages, wireMessage{Role: agent.RoleAssistant, Content: "I have the results."})
		}
		w.Messages = append(w.Messages, encodeMessage(q, m))
	}
	return json.Marshal(w)
}

func encodeMessage(q Quirks, m *agent.Message) wireMessage {
	w := wireMessage{Role: m.Role, Content: plain(m.Content), ToolCallID: m.ToolCallID}
	switch m.Role {
	case agent.RoleTool:
		w.Content = m.Content.String() // never null, never absent
		w.ToolCallID = callID(q, m.ToolCallID)
	case agent.RoleAssistant:
		for i, c := range m.ToolCalls {
			w.ToolCalls = append(w.ToolCalls, encodeCall(q, c, i == 0))
		}
		if len(m.ToolCalls) > 0 && m.Content.IsEmpty() {
			w.Content = nil // an empty text block is refused by some
		} else if m.Content.Null {
			w.Content = ""
		}
		calls := len(m.ToolCalls) > 0
		if q.Reasoning == ReasoningRequired && (calls || m.Reasoning != "") ||
			q.Reasoning == ReasoningWithCalls && calls && m.Reasoning != "" {
			if q.ReasoningField == "reasoning" {
				w.Reasoning = &m.Reasoning
			} else {
				w.ReasoningContent = &m.Reasoning
			}
		}
	case agent.RoleSystem, agent.RoleUser:
	}
	return w
}

// plain is a content as a value that encoding/json writes by itself: what a
// MarshalJSON method returns is checked and copied once more, which for a long
// conversation costs more than all the rest of a request.
func plain(c agent.Content) any {
	switch {
	case c.Parts != nil:
		return c.Parts
	case c.Null:
		return nil
	}
	return c.Value
}

func encodeCall(q Quirks, c agent.Call, first bool) agent.Call {
	args, err := agent.ReadArguments(c.Function.Arguments)
	if err != nil {
		args = agent.UnreadArguments(c.Function.Arguments)
	}
	out := agent.NewCall(callID(q, c.ID), callName(c.Function.Name), args)
	if !q.DropExtra {
		out.Extra = agent.HarmlessJSON(c.Extra)
	}
	if q.ThoughtSignature && first && out.Extra == nil {
		out.Extra = json.RawMessage(geminiNoSignature)
	}
	return out
}

// callName makes a name any provider takes of one a model made up.
func callName(name string) string {
	if name == "" {
		return "unknown"
	}
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 64)]
}

// plainID are the ids that every provider takes which has no stricter rule of its own. Calls
// of conversations that were imported have the ids of other programs.
var plainID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

func callID(q Quirks, id string) string {
	if !q.ShortCallIDs && plainID.MatchString(id) {
		return id
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	sum := sha256.Sum256([]byte(id))
	short := make([]byte, 9)
	for i := range short {
		short[i] = letters[int(sum[i])%len(letters)]
	}
	return string(short)
}

// objectSchema adds what providers require of a tool's parameters: the type
// object and a list of properties. $schema is refused by some.
func objectSchema(schema json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	schema = agent.HarmlessJSON(schema)
	if err := json.Unmarshal(schema, &fields); err != nil || fields == nil {
		return emptySchema
	}
	_, typed := fields["type"]
	_, listed := fields["properties"]
	_, marked := fields["$schema"]
	if typed && listed && !marked {
		return schema
	}
	delete(fields, "$schema")
	fields["type"] = json.RawMessage(`"object"`)
	if !listed {
		fields["properties"] = json.RawMessage(`{}`)
	}
	b, err := json.Marshal(fields) // sorted keys: the same bytes each time
	if err != nil {
		return emptySchema
	}
	return b
}

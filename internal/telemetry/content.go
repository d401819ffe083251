package telemetry

import (
	"encoding/json"

	"github.com/spool-agents/spool/agent"
)

// The form in which messages stand in attributes is that of the semantic
// conventions: a JSON array of messages with parts.
type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

func messagesJSON(messages []agent.Message) string {
	out := make([]message, 0, len(messages))
	for _, m := range messages {
		c := message{Role: string(m.Role)}
		if text := m.Content.String(); m.Role == agent.RoleTool {
			c.Parts = append(c.Parts, part{Type: "tool_call_response", ID: m.ToolCallID, Response: text})
		} else if text != "" {
			c.Parts = append(c.Parts, part{Type: "text", Content: text})
		}
		c.Parts = append(c.Parts, callParts(m.ToolCalls)...)
		out = append(out, c)
	}
	return asJSON(out)
}

func replyJSON(r agent.ModelReply) string {
	c := message{Role: string(agent.RoleAssistant), Finish: r.FinishReason}
	if r.Content != "" {
		c.Parts = append(c.Parts, part{Type: "text", Content: r.Content})
	}
	c.Parts = append(c.Parts, callParts(r.Calls)...)
	return asJSON([]message{c})
}

func callParts(calls []agent.Call) (parts []part) {
	for _, c := range calls {
		args := json.RawMessage(c.Function.Arguments)
		if !json.Valid(args) {
			args, _ = json.Marshal(c.Function.Arguments) // a string always can be
		}
		parts = append(parts, part{Type: "tool_call", ID: c.ID, Name: c.Function.Name, Arguments: args})
	}
	return parts
}

func asJSON(v any) string {
	b, _ := json.Marshal(v) // of strings and valid JSON
	return string(b)
}

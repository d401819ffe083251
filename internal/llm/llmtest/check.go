package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// request is a chat request as sent; what has to be checked is kept raw.
type request struct {
	Model         string          `json:"model"`
	Stream        bool            `json:"stream"`
	StreamOptions streamOptions   `json:"stream_options"`
	Messages      []message       `json:"messages"`
	Tools         json.RawMessage `json:"tools"`

	tools []tool
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       agent.Role      `json:"role"`
	Content    json.RawMessage `json:"content"` // nil: the key is absent
	ToolCalls  []toolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// callID is the form that OpenAI's limit of 40 characters and Anthropic's pattern leave.
var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Check returns the rules a chat request breaks that strict providers enforce.
func Check(body []byte) []string {
	_, broken := decode(body)
	return broken
}

func decode(body []byte) (request, []string) {
	var c checker
	var q request
	if err := Strict(string(body)); err != nil {
		c.add("the body is no JSON for a strict parser: %v", err)
	}
	if err := json.Unmarshal(body, &q); err != nil {
		c.add("the body is not a chat request: %v", err)
		return q, c.broken
	}
	if q.Model == "" {
		c.add("model is missing")
	}
	c.tools(&q)
	c.messages(q.Messages)
	return q, c.broken
}

func (q request) images() bool {
	return slices.ContainsFunc(q.Messages, func(m message) bool {
		var parts []agent.Part
		return json.Unmarshal(m.Content, &parts) == nil && slices.ContainsFunc(parts, func(p agent.Part) bool { return p.ImageURL != nil })
	})
}

type checker struct{ broken []string }

func (c *checker) add(format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf(format, args...))
}

func (c *checker) tools(q *request) {
	if len(q.Tools) == 0 {
		return
	}
	if err := json.Unmarshal(q.Tools, &q.tools); err != nil {
		c.add("tools are not a list of tools: %v", err)
		return
	}
	if len(q.tools) == 0 {
		c.add("tools is an empty list")
	}
	seen := map[string]bool{}
	for i, t := range q.tools {
		name := t.Function.Name
		if t.Type != "function" || !toolName.MatchString(name) {
			c.add("tool %d: type %q, name %q", i, t.Type, name)
		}
		if seen[name] {
			c.add("tool %q is offered twice", name)
		}
		seen[name] = true
		var schema struct {
			Type       string          `json:"type"`
			Properties json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(t.Function.Parameters, &schema); err != nil || schema.Type != "object" || schema.Properties == nil {
			c.add("tool %q: parameters must be a schema of type object with properties", name)
		}
	}
}

func (c *checker) messages(messages []message) {
	if len(messages) == 0 {
		c.add("messages are missing")
		return
	}
	pending := map[string]bool{} // calls that still need their result
	for i := range messages {
		m := &messages[i]
		if m.Role != agent.RoleTool && len(pending) > 0 {
			c.add("message %d (%s) stands before the results of %d tool calls", i, m.Role, len(pending))
			clear(pending)
		}
		switch m.Role {
		case agent.RoleSystem, "developer":
			c.text(i, m)
		case agent.RoleUser:
			c.text(i, m)
		case agent.RoleAssistant:
			c.assistant(i, m, pending)
		case agent.RoleTool:
			if !pending[m.ToolCallID] {
				c.add("message %d: tool result without its call %q directly before", i, m.ToolCallID)
			}
			delete(pending, m.ToolCallID)
			if len(m.Content) == 0 || m.Content[0] != '"' {
				c.add("message %d: content of a tool message must be a string, got %.20s", i, shown(m.Content))
			}
		default:
			c.add("message %d: unknown role %q", i, m.Role)
		}
	}
	if len(pending) > 0 {
		c.add("the transcript ends before the results of %d tool calls", len(pending))
	}
	if messages[len(messages)-1].Role == agent.RoleAssistant {
		c.add("the transcript ends with an assistant message")
	}
}

// text checks a message that must say something.
func (c *checker) text(i int, m *message) {
	content, err := m.content()
	if err != nil {
		c.add("message %d (%s): %v", i, m.Role, err)
		return
	}
	if content.Parts == nil && strings.TrimSpace(content.Value) == "" {
		c.add("message %d (%s) has no text", i, m.Role)
	}
	for _, p := range content.Parts {
		if p.Type == "text" && strings.TrimSpace(p.Text) == "" {
			c.add("message %d (%s) has an empty text part", i, m.Role)
		}
	}
	if content.Parts != nil && len(content.Parts) == 0 {
		c.add("message %d (%s) has an empty list of parts", i, m.Role)
	}
}

func (c *checker) assistant(i int, m *message, pending map[string]bool) {
	if len(m.ToolCalls) == 0 {
		c.text(i, m)
		return
	}
	if content, err := m.content(); err != nil && m.Content != nil {
		c.add("message %d: %v", i, err)
	} else if content.Parts != nil {
		c.text(i, m)
	}
	for _, call := range m.ToolCalls {
		if !callID.MatchString(call.ID) || pending[call.ID] {
			c.add("message %d: tool call id %q is empty or used twice, or has a form that providers refuse", i, call.ID)
		}
		pending[call.ID] = true
		if call.Type != "function" || !toolName.MatchString(call.Function.Name) {
			c.add("message %d: tool call of type %q with name %q", i, call.Type, call.Function.Name)
		}
		args, isString := stringOf(call.Function.Arguments)
		if !isString {
			c.add("message %d: arguments of a tool call must be a string, got %.20s", i, shown(call.Function.Arguments))
		} else if err := Strict(args); err != nil || strings.TrimLeft(args, " \t\r\n")[0] != '{' {
			c.add("message %d: arguments of a tool call must hold a JSON object, got %.40q: %v", i, args, err)
		}
	}
}

func (m *message) content() (agent.Content, error) {
	if m.Content == nil {
		return agent.Content{}, fmt.Errorf("content is missing")
	}
	if s, ok := stringOf(m.Content); ok {
		return agent.Text(s), nil
	}
	var content agent.Content
	err := json.Unmarshal(m.Content, &content)
	return content, err
}

func (m *message) message() agent.Message {
	content, _ := m.content() // the checker reports what is wrong with it
	out := agent.Message{Role: m.Role, Content: content, ToolCallID: m.ToolCallID}
	for _, call := range m.ToolCalls {
		args, _ := stringOf(call.Function.Arguments)
		out.ToolCalls = append(out.ToolCalls, agent.NewCall(call.ID, call.Function.Name, args))
	}
	return out
}

// stringOf reads a JSON string; most have no escapes, and transcripts are long.
func stringOf(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

func shown(raw json.RawMessage) string {
	if raw == nil {
		return "nothing"
	}
	return string(raw)
}

// Ask is the call that asks the user a question, as a step of a script.
func Ask(question string) string {
	return script.Call(agent.ToolAskUser, map[string]string{"question": question})
}

// deepest is how deep JSON may be nested for the strictest parsers.
const deepest = 80

// Strict reads JSON as the strictest parsers do: UTF-8 without NUL and half surrogate
// pairs, numbers a double can hold, no key twice, no deep nesting, nothing behind it.
func Strict(text string) error {
	d, whole := jsontext.NewDecoder(strings.NewReader(text)), false
	for {
		t, err := d.ReadToken()
		switch {
		case whole && errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case whole:
			return fmt.Errorf("after the value comes %.20q", t.String())
		case d.StackDepth() > deepest:
			return errors.New("nested too deep")
		case t.Kind() == '"' && strings.ContainsRune(t.String(), 0):
			return errors.New("a string holds NUL")
		case t.Kind() == '0':
			if _, err := strconv.ParseFloat(t.String(), 64); err != nil {
				return err
			}
		}
		whole = d.StackDepth() == 0
	}
}

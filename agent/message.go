package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Role says who wrote a message. The values are those of the OpenAI chat API.
type Role string

// The four roles of a chat message.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a thread's conversation as stored, exported and
// printed. Seq is dense per thread and starts at 1.
type Message struct {
	ID         string    `json:"id"`
	Role       Role      `json:"role"`
	Content    Content   `json:"content"`
	Timestamp  time.Time `json:"timestamp"`
	ToolCalls  []Call    `json:"tool_calls,omitempty"`
	ToolCallID string    `json:"tool_call_id,omitempty"`
	Name       string    `json:"name,omitempty"`
	Reasoning  string    `json:"reasoning,omitempty"`
	Usage      *Usage    `json:"usage,omitempty"`
	TurnID     string    `json:"turnId"`
	Seq        int64     `json:"seq"`
	// Source is empty or "user" for a person, "agent:ID" for another agent,
	// "steer" for a message taken into a running turn.
	Source string `json:"source,omitempty"`
	// Partial marks text that was streamed before a failure or a cancel. It is
	// not sent to a model again.
	Partial bool `json:"partial,omitempty"`
	// SupersededBy is the turn (a retry) whose answer replaces this one.
	SupersededBy string `json:"supersededBy,omitempty"`
	// Status and ErrorReason say how the tool run behind a tool message ended.
	Status      CallStatus  `json:"status,omitempty"`
	ErrorReason ErrorReason `json:"errorReason,omitempty"`
	// MessageID is the sender's own id of a person's message, in views only.
	MessageID string `json:"messageId,omitempty"`
	// SubAgentID is the thread id of the sub-agent, in sub-agent views only.
	SubAgentID string `json:"subAgentId,omitempty"`
}

// Call is one tool call in the OpenAI wire shape.
type Call struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function CallFunction `json:"function"`
	// Extra is provider data that has to be sent back with the call.
	Extra json.RawMessage `json:"extra_content,omitempty"`
}

// CallFunction names the tool and carries its arguments as JSON text.
type CallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewCall makes a function call.
func NewCall(id, name, arguments string) Call {
	return Call{ID: id, Type: "function", Function: CallFunction{Name: name, Arguments: arguments}}
}

// Usage counts tokens and money. Price is in US dollars.
type Usage struct {
	PromptTokens     int64   `json:"promptTokens"`
	CompletionTokens int64   `json:"completionTokens"`
	TotalTokens      int64   `json:"totalTokens"`
	CachedTokens     int64   `json:"cachedTokens,omitempty"`
	ReasoningTokens  int64   `json:"reasoningTokens,omitempty"`
	Price            float64 `json:"price,omitempty"`
	Requests         int64   `json:"requests,omitempty"`
	ToolCalls        int64   `json:"toolCalls,omitempty"`
	// Estimated means that the provider did not say and the tokens are our count.
	Estimated bool `json:"estimated,omitempty"`
}

// Add returns the sum of two usages.
func (u Usage) Add(o Usage) Usage {
	u.PromptTokens += o.PromptTokens
	u.CompletionTokens += o.CompletionTokens
	u.TotalTokens += o.TotalTokens
	u.CachedTokens += o.CachedTokens
	u.ReasoningTokens += o.ReasoningTokens
	u.Price += o.Price
	u.Requests += o.Requests
	u.ToolCalls += o.ToolCalls
	u.Estimated = u.Estimated || o.Estimated
	return u
}

// Price is what a model costs, in US dollars per million tokens. Cached is for
// input that the provider read from its cache; 0 means that it costs as much as
// other input.
type Price struct {
	Input  float64 `json:"input,omitempty"`
	Cached float64 `json:"cached,omitempty"`
	Output float64 `json:"output,omitempty"`
}

// ModelInfo is what is known of a model; zero fields are not known.
type ModelInfo struct {
	// Window is how many tokens a request and its answer may have together,
	// MaxOutput how many the answer.
	Window    int64 `json:"window,omitempty"`
	MaxOutput int64 `json:"maxOutput,omitempty"`
	Price     Price `json:"price"`
	// Images says that it takes images, NoImages that it takes none.
	Images   bool `json:"images,omitempty"`
	NoImages bool `json:"noImages,omitempty"`
}

// Apply sets the price of a use that has none: not all providers state one.
func (p Price) Apply(u Usage) Usage {
	if u.Price == 0 {
		cached := min(u.CachedTokens, u.PromptTokens)
		u.Price = (p.Input*float64(u.PromptTokens-cached) + cmp.Or(p.Cached, p.Input)*float64(cached) + p.Output*float64(u.CompletionTokens)) / 1e6
	}
	return u
}

// Part is one piece of a multi-part content (text or an image reference).
type Part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *ImageURL `json:"image_url,omitempty"`
}

// ImageURL refers to an image.
type ImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// Content is a string, null or a list of parts. The zero value is the empty string.
type Content struct {
	Null  bool
	Value string
	Parts []Part
}

// Text makes a plain string content.
func Text(s string) Content { return Content{Value: s} }

// NullContent is the content of an assistant message that only calls tools.
func NullContent() Content { return Content{Null: true} }

// String returns the text of the content; parts are joined by newlines.
func (c Content) String() string {
	if c.Parts == nil {
		return c.Value
	}
	var texts []string
	for _, p := range c.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// IsEmpty reports whether there is neither text nor a part.
func (c Content) IsEmpty() bool { return len(c.Parts) == 0 && c.Value == "" }

// MarshalJSON writes a string, null or an array.
func (c Content) MarshalJSON() ([]byte, error) {
	switch {
	case c.Parts != nil:
		return json.Marshal(c.Parts)
	case c.Null:
		return []byte("null"), nil
	}
	return json.Marshal(c.Value)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Content) UnmarshalJSON(b []byte) error {
	*c = Content{}
	switch b = bytes.TrimSpace(b); {
	case bytes.Equal(b, []byte("null")):
		c.Null = true
		return nil
	case len(b) > 0 && b[0] == '"':
		return json.Unmarshal(b, &c.Value)
	case len(b) > 0 && b[0] == '[':
		return json.Unmarshal(b, &c.Parts)
	}
	return fmt.Errorf("message content must be a string, null or an array of parts, got %.40q", b)
}

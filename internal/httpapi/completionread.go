package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// completionRequest is what is read of a request. Settings of the model are the
// agent's, so that those of a request are left aside, as is what is not known.
type completionRequest struct {
	Model         string              `json:"model"`
	Messages      []completionMessage `json:"messages"` // without system, once it is read
	Stream        bool                `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Metadata       map[string]json.RawMessage `json:"metadata"`
	N              int                        `json:"n"`
	Tools          []json.RawMessage          `json:"tools"`
	Functions      []json.RawMessage          `json:"functions"`
	ToolChoice     any                        `json:"tool_choice"`
	FunctionCall   any                        `json:"function_call"`
	ResponseFormat struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`

	lines  []line            // all of the messages
	system []string          // the texts of system and developer messages
	images map[string][]byte // what came in data: URLs, by the names that they are kept by
}

type refusal struct {
	error
	param string
}

func (r *refusal) Unwrap() error { return r.error }

func refuse(param, format string, args ...any) error {
	return &refusal{agent.Errorf(agent.CodeInvalid, format, args...), param}
}

// textOf is the text of a string, nothing for null, else what is written.
func textOf(raw json.RawMessage) (text string) {
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	return text
}

type completionMessage struct {
	Role    string
	Content agent.Content
}

func (m completionMessage) ofUser() bool { return m.Role == "user" }

// UnmarshalJSON reads a message of any role. What tools were called with is text, as is
// a refusal.
func (m *completionMessage) UnmarshalJSON(b []byte) error {
	var w struct {
		Role      string          `json:"role"`
		Refusal   string          `json:"refusal"`
		Content   json.RawMessage `json:"content"`
		ToolCalls json.RawMessage `json:"tool_calls"`
	}
	if err := decode(b, &w); err != nil {
		return refuse("messages", "a message is not valid: %s", err)
	}
	m.Role = w.Role
	var parts []wirePart
	switch {
	case w.Content == nil || json.Unmarshal(w.Content, &m.Content.Value) == nil:
	case decode(w.Content, &parts) == nil:
		for _, p := range parts {
			m.Content.Parts = append(m.Content.Parts, p.part())
		}
	default:
		return refuse("messages.content", "the content of a message is neither a text nor a list of parts")
	}
	if len(w.ToolCalls) > 4 { // more than [] or null
		w.Refusal += "[called " + string(w.ToolCalls) + "]"
	}
	if w.Refusal != "" {
		m.Content = agent.Text(strings.TrimSpace(m.Content.String() + "\n" + w.Refusal))
	}
	return nil
}

type wirePart struct {
	agent.Part
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"` // an object; some clients give the URL itself
}

func (p wirePart) part() agent.Part {
	var image agent.ImageURL
	switch p.Type {
	case "refusal":
		return agent.Part{Type: "text", Text: p.Refusal}
	case "image_url":
		if json.Unmarshal(p.ImageURL, &image.URL) != nil {
			_ = json.Unmarshal(p.ImageURL, &image) // without a URL it is refused
		}
		p.Part.ImageURL = &image
	}
	return p.Part
}

// readCompletion decodes a request and refuses what an agent cannot do.
func (s *Server) readCompletion(c *call) (q completionRequest, err error) {
	raw, err := c.read()
	if err != nil {
		return q, err
	}
	if q, err = parseCompletion(raw); err != nil {
		return q, err
	}
	if !slices.ContainsFunc(s.knownAgents(), func(a agentInfo) bool { return a.Name == q.Model }) {
		return q, &refusal{&httpError{http.StatusNotFound, "model_not_found", "there is no agent " + strconv.Quote(q.Model) + ": /v1/models lists them"}, "model"}
	}
	return q, nil
}

func parseCompletion(raw []byte) (q completionRequest, err error) {
	if err := decode(raw, &q); err != nil {
		return q, agent.Wrap(err, agent.CodeInvalid, "the body is not a chat completion request")
	}
	if err := q.check(); err != nil {
		return q, err
	}
	return q, q.readMessages()
}

func (q *completionRequest) check() error {
	format, schema := q.ResponseFormat.Type, &q.ResponseFormat.JSONSchema.Schema
	switch {
	case q.Model == "":
		return refuse("model", "model is missing: it names an agent, and /v1/models lists them")
	case q.N > 1:
		return refuse("n", "n is %d: an agent gives one answer", q.N)
	case len(q.Tools) > 0 && q.ToolChoice != "none":
		return refuse("tools", "agents run tools of their own, and none of the client: leave out tools, or set tool_choice to none")
	case len(q.Functions) > 0 && q.FunctionCall != "none":
		return refuse("functions", "agents run tools of their own, and none of the client: leave out functions, or set function_call to none")
	case !slices.Contains([]string{"", "text", "json_object", "json_schema"}, format):
		return refuse("response_format.type", "response_format %q is not possible: use text, json_object, or json_schema with a schema", format)
	case format == "json_object":
		*schema = json.RawMessage(`{"type":"object"}`)
	case format != "json_schema":
		*schema = nil
	case len(*schema) == 0 || string(*schema) == "null":
		return refuse("response_format.json_schema.schema", "response_format json_schema needs json_schema.schema")
	default:
		given, err := tool.AnswerSchema(*schema)
		if err != nil {
			return &refusal{err, "response_format.json_schema.schema"}
		}
		var compact bytes.Buffer // as stores keep it
		_ = json.Compact(&compact, given)
		*schema = compact.Bytes()
	}
	return nil
}

// readMessages checks the messages, takes the images out of them, and sets those of the
// system apart.
func (q *completionRequest) readMessages() error {
	q.images = map[string][]byte{}
	var rest []completionMessage
	for i, m := range q.Messages {
		at := "messages[" + strconv.Itoa(i) + "]"
		if err := q.readContent(at+".content", m.Content); err != nil {
			return err
		}
		switch m.Role {
		case "system", "developer":
			q.system = append(q.system, m.Content.String())
		case "user", "assistant", "tool", "function":
			if said(m.Content) != "" {
				rest = append(rest, m)
			}
		default:
			return refuse(at+".role", "role %q is not known: use system, developer, user, assistant or tool", m.Role)
		}
	}
	q.Messages = rest
	if len(rest) == 0 || !rest[len(rest)-1].ofUser() {
		return refuse("messages", "the last message has to be the user's, and not empty")
	}
	for from, i := 0, 1; i <= len(rest); i++ {
		if i == len(rest) || rest[i].ofUser() != rest[from].ofUser() {
			q.lines = append(q.lines, line{rest[from].ofUser(), said(joined(rest[from:i])), i})
			from = i
		}
	}
	return nil
}

func (q *completionRequest) readContent(in string, c agent.Content) error {
	for i, p := range c.Parts {
		at := in + "[" + strconv.Itoa(i) + "]"
		switch {
		case p.Type == "text":
			continue
		case p.Type != "image_url":
			return refuse(at+".type", "parts of the type %q are not taken: use text and image_url; an agent reads other files from its workspace", p.Type)
		case !slices.Contains([]string{"", "auto", "low", "high"}, p.ImageURL.Detail):
			return refuse(at+".image_url.detail", "detail %q is not known: use auto, low or high", p.ImageURL.Detail)
		}
		scheme, data, _ := strings.Cut(p.ImageURL.URL, ":")
		if strings.EqualFold(scheme, "file") && strings.HasPrefix(data, "/") {
			return refuse(at+".image_url.url", "%.60q is no image that is taken: use a data: URL, an https URL, or file:PATH with a path in the workspace", p.ImageURL.URL)
		}
		if !strings.EqualFold(scheme, "data") {
			continue
		}
		image, err := dataOf(data)
		if err == nil {
			scheme, err = agent.ImageName(image)
		}
		if err != nil {
			return &refusal{agent.Wrap(err, agent.CodeInvalid, "the data: URL holds no image that is taken"), at + ".image_url.url"}
		}
		p.ImageURL.URL = agent.ImageScheme + scheme
		q.images[scheme] = image
	}
	if err := agent.CheckContent(c); err != nil {
		return &refusal{err, in}
	}
	return nil
}

// dataOf is what a data: URL holds, by what stands behind its colon. The kind of the
// image is told by its bytes: what clients say of it is often wrong.
func dataOf(text string) ([]byte, error) {
	kind, data, _ := strings.Cut(text, ",")
	if !strings.HasSuffix(strings.ToLower(strings.TrimSpace(kind)), ";base64") {
		return nil, agent.Errorf(agent.CodeInvalid, "it is not in base64: write data:image/png;base64,…")
	}
	data = strings.TrimRight(strings.Join(strings.Fields(data), ""), "=")
	return base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(data))
}

// latest is what the user has said since the last answer, and how many messages stand
// before it.
func (q completionRequest) latest() (out agent.Content, before int) {
	before = len(q.Messages)
	for before > 0 && q.Messages[before-1].ofUser() {
		before--
	}
	return joined(q.Messages[before:]), before
}

func joined(messages []completionMessage) (out agent.Content) {
	if len(messages) == 1 {
		return messages[0].Content
	}
	for _, m := range messages {
		out.Parts = append(out.Parts, partsOf(m.Content)...)
	}
	return out
}

func partsOf(c agent.Content) []agent.Part {
	if c.Parts != nil {
		return c.Parts
	}
	return []agent.Part{{Type: "text", Text: c.Value}}
}

// whole is the latest with all that stands before it.
func (q completionRequest) whole() agent.Content {
	latest, n := q.latest()
	var b strings.Builder
	var images []agent.Part
	for _, m := range q.Messages[:n] {
		text := m.Content.String()
		for _, p := range m.Content.Parts {
			if p.ImageURL != nil {
				images = append(images, p)
				text += "\n[image " + strconv.Itoa(len(images)) + "]"
			}
		}
		if text != "" {
			b.WriteString(m.Role + ":\n" + text + "\n\n")
		}
	}
	if b.Len() == 0 {
		return after(q.instructions(), nil, latest)
	}
	return after(q.instructions()+"This conversation was begun elsewhere. Until now it went:\n\n"+b.String()+"Go on from there. The user now says:\n\n", images, latest)
}

// The instructions of a request stand before what its user says.
const (
	instructionsBegin = "The application gives these instructions for the conversation, in place of earlier ones of its own:\n\n"
	instructionsEnd   = "\n\nEnd of the instructions.\n\n"
)

func (q completionRequest) instructions() string {
	if strings.TrimSpace(strings.Join(q.system, "")) == "" {
		return ""
	}
	return instructionsBegin + "system:\n" + strings.Join(q.system, "\n\nsystem:\n") + instructionsEnd
}

func after(text string, images []agent.Part, c agent.Content) agent.Content {
	switch {
	case text == "":
		return c
	case c.Parts == nil && len(images) == 0:
		return agent.Text(text + c.Value)
	}
	return agent.Content{Parts: slices.Concat([]agent.Part{{Type: "text", Text: text}}, images, partsOf(c))}
}

func cutInstructions(text string) (instructions, rest string) {
	if end := strings.Index(text, instructionsEnd); end > 0 && strings.HasPrefix(text, instructionsBegin) {
		end += len(instructionsEnd)
		return text[:end], strings.TrimSpace(text[end:])
	}
	return "", text
}

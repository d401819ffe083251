package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// The part of OpenAI's API that chat clients use, on top of threads. A model is an
// agent. A request that names a conversation adds its last message to it, as the
// thread knows the rest; one that names none starts a session, to which the
// request's own history is given.

const (
	// threadHeader names the conversation of a request, and of its answer.
	threadHeader = "X-Spool-Thread"
	turnHeader   = "X-Spool-Turn"
	// conversationKey does the same in the request's metadata.
	conversationKey   = "conversation"
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 255
	formatSchema      = "json_schema"
)

// completionRequest is what is read of a request. Settings of the model are the
// agent's, so that those of a request are left aside.
type completionRequest struct {
	Model         string              `json:"model"`
	Messages      []completionMessage `json:"messages"`
	Stream        bool                `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Metadata       map[string]string `json:"metadata"`
	N              int               `json:"n"`
	Tools          []json.RawMessage `json:"tools"`
	Functions      []json.RawMessage `json:"functions"`
	ResponseFormat struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

type completionMessage struct {
	Role    string        `json:"role"`
	Content agent.Content `json:"content"`
}

// read decodes a request and refuses what an agent cannot do.
func (s *Server) readCompletion(c *call) (completionRequest, error) {
	var q completionRequest
	raw, err := c.read()
	if err == nil {
		err = agent.Wrap(json.Unmarshal(raw, &q), agent.CodeInvalid, "the body is not a chat completion request")
	}
	if err != nil {
		return q, err
	}
	switch {
	case q.N > 1:
		return q, agent.Errorf(agent.CodeInvalid, "n is %d: an agent gives one answer", q.N)
	case len(q.Tools)+len(q.Functions) > 0:
		return q, agent.Errorf(agent.CodeInvalid, "agents have tools of their own: leave out tools and functions")
	case !slices.Contains([]string{"", "text", formatSchema}, q.ResponseFormat.Type):
		return q, agent.Errorf(agent.CodeInvalid, "response_format %q is not possible: use text, or %s with a schema", q.ResponseFormat.Type, formatSchema)
	case q.ResponseFormat.Type == formatSchema && len(q.ResponseFormat.JSONSchema.Schema) == 0:
		return q, agent.Errorf(agent.CodeInvalid, "response_format %s needs json_schema.schema", formatSchema)
	case len(q.Messages) == 0 || q.Messages[len(q.Messages)-1].Role != "user":
		return q, agent.Errorf(agent.CodeInvalid, "the last message has to be the user's")
	}
	for _, m := range q.Messages {
		if err := agent.CheckContent(m.Content); err != nil {
			return q, err
		}
	}
	if !slices.ContainsFunc(s.knownAgents(), func(a agentInfo) bool { return a.Name == q.Model }) {
		return q, &httpError{http.StatusNotFound, "model_not_found", "there is no agent " + q.Model + ": /v1/models lists them"}
	}
	return q, nil
}

// message makes a message to a thread of a request.
func (q completionRequest) message(c *call) (memory.SendRequest, error) {
	r := memory.SendRequest{Agent: q.Model, MessageID: spool.NewID(), AnswerSchema: q.ResponseFormat.JSONSchema.Schema}
	key := c.r.Header.Get(idempotencyHeader)
	if len(key) > maxIdempotencyKey {
		return r, agent.Errorf(agent.CodeInvalid, "the %s has %d characters, at most %d are possible", idempotencyHeader, len(key), maxIdempotencyKey)
	}
	if key != "" {
		r.MessageID = "request-" + shortHash(c.user, key)
	}
	name := c.r.Header.Get(threadHeader)
	if name == "" {
		name = q.Metadata[conversationKey]
	}
	if name == "" {
		r.SessionID, r.ConversationID = spool.NewID(), agent.DefaultConversation
		if key != "" {
			r.SessionID = "chat-" + shortHash(c.user, key)
		}
		r.Content = q.whole()
		return r, nil
	}
	if !strings.Contains(name, "/") {
		name = agent.MainThreadID(name, agent.DefaultConversation)
	}
	p, err := agent.ParseThreadID(name)
	if err != nil || p.Kind != agent.KindMain {
		return r, agent.Errorf(agent.CodeInvalid, "conversation %q is not valid: use SESSION or SESSION/CONVERSATION", name)
	}
	r.SessionID, r.ConversationID = p.SessionID, p.ConversationID
	r.Content, _ = q.latest()
	return r, nil
}

func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// latest is what the user has said since the last answer, and how many messages stand
// before it.
func (q completionRequest) latest() (out agent.Content, before int) {
	before = len(q.Messages)
	for before > 0 && q.Messages[before-1].Role == "user" {
		before--
	}
	if before == len(q.Messages)-1 {
		return q.Messages[before].Content, before
	}
	for _, m := range q.Messages[before:] {
		out.Parts = append(out.Parts, partsOf(m.Content)...)
	}
	return out, before
}

// whole is the latest with all that stands before it.
func (q completionRequest) whole() agent.Content {
	latest, n := q.latest()
	var b strings.Builder
	for _, m := range q.Messages[:n] {
		if text := m.Content.String(); text != "" {
			b.WriteString(m.Role + ":\n" + text + "\n\n")
		}
	}
	if b.Len() == 0 {
		return latest
	}
	before := "This conversation was begun elsewhere. Until now it went:\n\n" + b.String() + "Go on from there. The user now says:\n\n"
	if latest.Parts == nil {
		return agent.Text(before + latest.Value)
	}
	return agent.Content{Parts: append([]agent.Part{{Type: "text", Text: before}}, latest.Parts...)}
}

func partsOf(c agent.Content) []agent.Part {
	if c.Parts != nil {
		return c.Parts
	}
	return []agent.Part{{Type: "text", Text: c.Value}}
}

// complete answers POST /v1/chat/completions.
func (s *Server) complete(c *call) (any, error) {
	q, err := s.readCompletion(c)
	if err != nil {
		return nil, err
	}
	r, err := q.message(c)
	if err != nil {
		return nil, err
	}
	if err := s.place(c, &r); err != nil {
		return nil, err
	}
	a := &completion{s: s, c: c, model: q.Model, usage: q.StreamOptions.IncludeUsage, created: time.Now().Unix()}
	ctx, thread := c.r.Context(), agent.MainThreadID(r.SessionID, r.ConversationID)
	tail, err := c.client.Tail(ctx, thread)
	if err != nil {
		return nil, err
	}
	sent, err := a.put(ctx, r, tail != "")
	if err != nil {
		return nil, err
	}
	a.sent = sent
	c.w.Header().Set(threadHeader, sent.ThreadID)
	c.w.Header().Set(turnHeader, sent.TurnID)
	if q.Stream {
		return nil, a.stream(tail)
	}
	end, err := a.wait(ctx)
	if err != nil {
		return nil, err
	}
	text, err := outcome(end)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"id": a.id(), "object": "chat.completion", "created": a.created, "model": a.model, "usage": wireUsage(end.Usage),
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": finish(end), "logprobs": nil,
			"message": map[string]any{"role": "assistant", "content": text, "refusal": nil},
		}},
	}, nil
}

// completion is an answer under way.
type completion struct {
	s       *Server
	c       *call
	sent    spool.Reply
	model   string
	usage   bool
	created int64
}

// put sends the message. Only one that names no agent answers a question, so that
// an agent that the thread has already is left out. A message that is repeated may
// have been the thread's first, which named it.
func (a *completion) put(ctx context.Context, r memory.SendRequest, exists bool) (spool.Reply, error) {
	if !exists {
		return a.c.client.Send(ctx, r)
	}
	plain := r
	t, err := a.c.client.Thread(ctx, agent.MainThreadID(r.SessionID, r.ConversationID))
	if err != nil {
		return spool.Reply{}, err
	}
	if t.Config.Name == r.Agent {
		plain.Agent = ""
	}
	sent, err := a.c.client.Send(ctx, plain)
	if agent.CodeOf(err) == agent.CodeConflict && plain.Agent != r.Agent {
		if again, other := a.c.client.Send(ctx, r); other == nil {
			return again, nil
		}
	}
	return sent, err
}

func (a *completion) id() string { return "chatcmpl-" + a.sent.TurnID }

// outcome is the text of an answer, or why there is none. A question of an agent
// is an answer too: the next message answers it.
func outcome(r spool.Reply) (string, error) {
	switch r.Status {
	case string(agent.ThreadCompleted):
		return r.Response, nil
	case spool.StatusAnswered:
		return "The answer was passed on to " + r.Answered.Agent + ".", nil
	case string(agent.ThreadWaitingForUser):
		var asked []string
		for _, q := range r.Questions {
			asked = append(asked, q.Text)
		}
		return strings.Join(asked, "\n\n"), nil
	case string(agent.ThreadWaitingForApproval):
		var ids []string
		for _, p := range r.Pending {
			ids = append(ids, p.ApprovalID)
		}
		return "", &httpError{http.StatusConflict, r.Status, "the turn waits for a person to approve " + strings.Join(ids, ", ") +
			"; it goes on after that, and the same request with its " + idempotencyHeader + " then gets the answer"}
	case spool.StatusStored:
		return "", &httpError{http.StatusServiceUnavailable, r.Status, "the message is stored, but nobody runs it yet: " + r.Note}
	case string(agent.ThreadCancelled), spool.StatusDropped:
		return "", &httpError{http.StatusConflict, "cancelled", "the turn was cancelled"}
	}
	return "", &httpError{http.StatusInternalServerError, string(r.Reason), "the turn failed: " + r.Error}
}

func finish(r spool.Reply) string {
	if r.Status == string(agent.ThreadCompleted) && r.Note != "" { // the one note of a completed turn
		return "length"
	}
	return "stop"
}

func wireUsage(u agent.Usage) map[string]any {
	return map[string]any{
		"prompt_tokens": u.PromptTokens, "completion_tokens": u.CompletionTokens, "total_tokens": u.TotalTokens,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.CachedTokens},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.ReasoningTokens},
	}
}

func (s *Server) models(*call) (any, error) {
	data := []any{}
	for _, a := range s.knownAgents() {
		data = append(data, wireModel(a))
	}
	return map[string]any{"object": "list", "data": data}, nil
}

func (s *Server) model(c *call) (any, error) {
	for _, a := range s.knownAgents() {
		if a.Name == c.path("model") {
			return wireModel(a), nil
		}
	}
	return nil, &httpError{http.StatusNotFound, "model_not_found", "there is no agent " + c.path("model") + ": /v1/models lists them"}
}

func wireModel(a agentInfo) map[string]any {
	return map[string]any{"id": a.Name, "object": "model", "created": 0, "owned_by": "spool", "description": a.Description}
}

// wireFailure is an error as clients of OpenAI's API know it. Their libraries
// repeat some statuses unless told not to: without an idempotency key that would
// send a message twice.
func wireFailure(w http.ResponseWriter, r *http.Request, status int, f failure) map[string]any {
	kind := "server_error"
	switch {
	case status == http.StatusUnauthorized:
		kind = "authentication_error"
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status < 500:
		kind = "invalid_request_error"
	}
	if status != http.StatusTooManyRequests && r.Header.Get(idempotencyHeader) == "" {
		w.Header().Set("X-Should-Retry", "false")
	}
	return map[string]any{"message": f.Message, "type": kind, "param": nil, "code": f.Code}
}

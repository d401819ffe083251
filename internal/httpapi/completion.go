package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// The part of OpenAI's API that chat clients use, on top of threads. A model is an
// agent. completionread.go reads a request, completionthread.go finds the conversation
// that it goes on with, and what of it that conversation lacks.

const (
	// threadHeader names the conversation of a request, and of its answer.
	threadHeader = "X-Spool-Thread"
	turnHeader   = "X-Spool-Turn"
	// conversationKey does the same in the request's metadata.
	conversationKey = "conversation"
)

// complete answers POST /v1/chat/completions.
func (s *Server) complete(c *call) (any, error) {
	q, err := s.readCompletion(c)
	if err != nil {
		return nil, err
	}
	a := &completion{s: s, c: c, q: q, created: time.Now().Unix()}
	ctx := c.r.Context()
	r, t, err := a.target(ctx)
	if err != nil {
		return nil, err
	}
	tail, err := c.client.Tail(ctx, agent.MainThreadID(r.SessionID, r.ConversationID))
	if err != nil {
		return nil, err
	}
	if a.sent, err = a.put(ctx, r, t); err != nil {
		return nil, err
	}
	c.w.Header().Set(threadHeader, a.sent.ThreadID)
	c.w.Header().Set(turnHeader, a.sent.TurnID)
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
		"id": a.id(), "object": "chat.completion", "created": a.created, "model": q.Model, "usage": wireUsage(end.Usage),
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": finish(end), "logprobs": nil,
			"message": map[string]any{"role": "assistant", "content": text, "refusal": nil},
		}},
	}, nil
}

type completion struct {
	s       *Server
	c       *call
	q       completionRequest
	sent    spool.Reply
	created int64
}

// post sends a message. Only one that names no agent answers a question, so that
// an agent that the thread has already is left out. A message that is repeated may
// have been the thread's first, which named it.
func (a *completion) post(ctx context.Context, r memory.SendRequest) (spool.Reply, error) {
	for _, name := range r.Content.Images() {
		if data := a.q.images[name]; data != nil {
			if _, err := a.s.store.KeepImage(ctx, data); err != nil {
				return spool.Reply{}, err
			}
		}
	}
	t, err := a.c.client.Thread(ctx, agent.MainThreadID(r.SessionID, r.ConversationID))
	plain := r
	if err == nil && t.Config.Name == r.Agent {
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

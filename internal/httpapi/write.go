package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// message is what a person sends. Either threadId or sessionId and conversationId
// name the conversation; none of them starts a session.
type message struct {
	SessionID      string          `json:"sessionId,omitempty"`
	ConversationID string          `json:"conversationId,omitempty"`
	ThreadID       string          `json:"threadId,omitempty"`
	MessageID      string          `json:"messageId,omitempty"`
	Content        agent.Content   `json:"content"`
	WhenBusy       memory.WhenBusy `json:"whenBusy,omitempty"`
	Agent          string          `json:"agent,omitempty"`
	Model          string          `json:"model,omitempty"`
	Workdir        string          `json:"workdir,omitempty"`
	// AnswerSchema is the JSON schema that the answer has to fit.
	AnswerSchema json.RawMessage `json:"answerSchema,omitempty"`
}

func (m message) request() memory.SendRequest {
	return memory.SendRequest{
		SessionID: m.SessionID, ConversationID: m.ConversationID, ThreadID: m.ThreadID, MessageID: m.MessageID,
		Content: m.Content, WhenBusy: m.WhenBusy, Agent: m.Agent, Model: m.Model, Workdir: m.Workdir,
		AnswerSchema: m.AnswerSchema,
	}
}

// send puts a message into an inbox.
func (s *Server) send(c *call) error {
	var m message
	if err := c.body(&m); err != nil {
		return err
	}
	return s.sendAs(c, m.request())
}

func (s *Server) sendAs(c *call, r memory.SendRequest) error {
	sent, err := c.client.Send(c.r.Context(), r)
	return s.reply(c, http.StatusAccepted, sent, err)
}

func (s *Server) cancel(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	var r struct {
		TurnID string `json:"turnId,omitempty"`
		All    bool   `json:"all,omitempty"`
	}
	if err := c.body(&r); err != nil {
		return err
	}
	out, err := c.client.Cancel(c.r.Context(), memory.CancelRequest{ThreadID: id, TurnID: r.TurnID, All: r.All})
	if err != nil {
		return err
	}
	return c.answer(out)
}

func (s *Server) retry(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	var r struct {
		RequestID string `json:"requestId,omitempty"`
	}
	if err := c.body(&r); err != nil {
		return err
	}
	sent, err := c.client.Retry(c.r.Context(), id, r.RequestID)
	return s.reply(c, http.StatusAccepted, sent, err)
}

func (s *Server) fork(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	var r struct {
		At             string `json:"at,omitempty"`
		ConversationID string `json:"conversationId,omitempty"`
		RequestID      string `json:"requestId,omitempty"`
	}
	if err := c.body(&r); err != nil {
		return err
	}
	out, err := c.client.Fork(c.r.Context(), spool.ForkRequest{ThreadID: id, At: r.At, ConversationID: r.ConversationID, RequestID: r.RequestID})
	if err != nil {
		return err
	}
	return c.answer(out)
}

func (s *Server) decide(c *call) error {
	var d struct {
		Verdict     string   `json:"verdict"`
		Calls       []string `json:"calls,omitempty"`
		Instruction string   `json:"instruction,omitempty"`
	}
	if err := c.body(&d); err != nil {
		return err
	}
	out, err := c.client.Decide(c.r.Context(), memory.Decision{Target: c.path("approval"), Verdict: d.Verdict, Calls: d.Calls, Instruction: d.Instruction})
	if err != nil {
		return err
	}
	return c.answer(out)
}

func (s *Server) answer(c *call) error {
	var a struct {
		Text string `json:"text"`
	}
	if err := c.body(&a); err != nil {
		return err
	}
	out, err := c.client.Answer(c.r.Context(), memory.AnswerRequest{Target: c.path("question"), Text: a.Text})
	if err != nil {
		return err
	}
	return c.answer(out)
}

package spool

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/view"
	"github.com/spool-agents/spool/memory"
)

// KeepImage keeps an image in the store and returns its name, to which the parts of
// a message refer as agent.ImageScheme and the name. Workers find it there, wherever
// they run. A message that shows it has to be sent within a day.
func (c *Client) KeepImage(ctx context.Context, data []byte) (string, error) {
	return c.store.KeepImage(ctx, data)
}

// Send puts a message into a thread's inbox and, if the thread is idle, nudges
// Temporal. It returns once the message is safe; Wait waits for the answer.
// Missing ids are made: a session id and a message id (UUIDv7). Repeating a Send
// with the same message id is safe.
//
// A plain message (WhenBusy, Agent and Model empty) to a thread tree with exactly
// one open question answers it: the Reply names it, and is about the turn that
// waited. While more waits for a person there, or an approval, a message with an
// empty WhenBusy is refused with a *PendingError of CodeConflict.
func (c *Client) Send(ctx context.Context, r memory.SendRequest) (Reply, error) {
	if err := c.complete(&r); err != nil {
		return Reply{}, err
	}
	began := time.Now()
	sent, err := c.store.Send(ctx, r)
	c.tracing.Sent(ctx, memory.EntryMessage, began, c.steered(ctx, r, sent), err)
	if err != nil {
		return Reply{}, r.Unsent(c.withPending(ctx, r, err))
	}
	return c.sent(ctx, sent), nil
}

// complete fills what the caller left out, and checks the rest.
func (c *Client) complete(r *memory.SendRequest) error {
	r.UserID = cmp.Or(r.UserID, c.o.UserID)
	r.Profile = cmp.Or(r.Profile, c.o.Profile)
	r.MessageID = cmp.Or(r.MessageID, NewID())
	if r.ThreadID == "" && r.SessionID == "" {
		r.SessionID = NewID()
	}
	if len(r.AnswerSchema) > 0 {
		schema, err := tool.AnswerSchema(r.AnswerSchema)
		if err != nil {
			return err
		}
		r.AnswerSchema = schema
	}
	return r.Check()
}

// withPending adds the open approvals and questions to the refusal of a plain message.
func (c *Client) withPending(ctx context.Context, r memory.SendRequest, refusal error) error {
	var coded *agent.Error
	if r.WhenBusy != "" || agent.CodeOf(refusal) != agent.CodeConflict || !errors.As(refusal, &coded) {
		return refusal
	}
	id := r.ThreadID
	if id == "" {
		id = agent.MainThreadID(r.SessionID, r.ConversationID)
	}
	open, err := c.Approvals(ctx, id)
	if err != nil {
		return refusal
	}
	questions, err := c.Questions(ctx, id)
	if err != nil || len(open)+len(questions) == 0 {
		return refusal
	}
	return NewPendingError(open, questions, coded)
}

// Retry puts a retry of a thread's last turn into its inbox and nudges Temporal.
// An empty request id is made; repeating the same one is safe.
func (c *Client) Retry(ctx context.Context, threadID, requestID string) (Reply, error) {
	requestID = cmp.Or(requestID, NewID())
	if _, err := c.Thread(ctx, threadID); err != nil {
		return Reply{}, err
	}
	began := time.Now()
	sent, err := c.store.Retry(ctx, memory.RetryRequest{UserID: c.o.UserID, ThreadID: threadID, RequestID: requestID})
	c.tracing.Sent(ctx, memory.EntryRetry, began, sent, err)
	if err != nil {
		return Reply{}, err
	}
	return c.sent(ctx, sent), nil
}

// steered names the turn that a message is steered into, for its trace.
func (c *Client) steered(ctx context.Context, r memory.SendRequest, s memory.SendResult) memory.SendResult {
	if c.tracing == nil || r.WhenBusy != memory.Steer || s.Idle {
		return s
	}
	if t, err := c.store.Thread(ctx, "", s.ThreadID); err == nil && t.OpenTurnID != "" {
		s.TurnID = t.OpenTurnID
	}
	return s
}

// sent nudges an idle thread and describes the outcome.
func (c *Client) sent(ctx context.Context, s memory.SendResult) Reply {
	r := view.Under(s.ThreadID, s.TurnID)
	if s.Repeated && s.State != memory.EntryWaiting && s.TurnID != "" { // its turn may have ended
		if now, err := c.Status(ctx, s.ThreadID, s.TurnID); err == nil {
			r = now
		}
	}
	r.MessageID, r.State, r.Repeated = s.MessageID, s.State, s.Repeated
	ended := r.Status != "" && r.Status != string(agent.ThreadRunning)
	switch {
	case s.Answered != nil:
		asked := view.RequestOf(*s.Answered)
		if r.Answered = &asked; !ended {
			c.answered(ctx, s, &r)
		}
	case ended:
	case s.State != memory.EntryWaiting:
		r.Status = string(agent.ThreadRunning)
	default:
		c.queued(ctx, s, &r)
	}
	return r
}

// answered tells the thread whose question a message has answered.
func (c *Client) answered(ctx context.Context, s memory.SendResult, r *Reply) {
	r.Status = string(agent.ThreadRunning)
	if s.TurnID == "" {
		r.Status = StatusAnswered
	}
	if err := c.nudgeWaiting(ctx, s.Answered.ThreadID); err != nil {
		r.Status = StatusStored
		r.Note = "the answer is saved, but " + err.Error() + "; the agent goes on when Temporal and a worker are back"
	}
}

// queued tells the thread in whose inbox a message waits, if it is idle.
func (c *Client) queued(ctx context.Context, s memory.SendResult, r *Reply) {
	r.Status = StatusQueued
	var err error
	switch {
	case s.Idle:
		r.Status = string(agent.ThreadRunning)
		err = c.nudge(ctx, contract.NudgeTarget{Thread: s.ThreadID})
	case c.temporal == nil:
		err = c.unreachable(nil)
	}
	if err != nil {
		r.Status = StatusStored
		r.Note = "saved, but not running: " + err.Error() + "; it runs when Temporal and a worker are back, and repeating it with the same id is safe"
	}
}

// NewID makes a unique id that sorts by time (UUIDv7).
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

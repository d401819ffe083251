package spool

import (
	"cmp"
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// ForkRequest says what to fork.
type ForkRequest struct {
	ThreadID string `json:"-"`
	// At is the last message to copy: its id, or the one that its sender gave it.
	// Empty is the last one that is saved. A call is never parted from its results:
	// a message in the middle of a tool round stands for the whole round.
	At string `json:"at,omitempty"`
	// ConversationID names the new conversation, in the same session; empty makes
	// a name.
	ConversationID string `json:"conversationId,omitempty"`
	// RequestID makes the request safe to repeat; empty makes one.
	RequestID string `json:"requestId,omitempty"`
}

// Forked is a new conversation that begins as another one did.
type Forked struct {
	memory.ForkResult
	SessionID      string `json:"sessionId"`
	ConversationID string `json:"conversationId"`
	// Status is that of the new thread: cancelled if the last turn was cut, else
	// what it was there.
	Status agent.ThreadStatus `json:"status"`
	// RequestID is the one to repeat the request with.
	RequestID string `json:"requestId"`
}

// Fork copies a conversation up to a message into a new one, with its sub-agents
// as they were then. The original is not changed, also if it is at work. The copy
// has ids of its own, runs nothing, and goes on with Send or Retry; its sub-agents
// can be resumed. Temporal is not needed. What does not exist is CodeNotFound, a
// sub-agent's thread CodeInvalid, a name that is taken CodeConflict.
func (c *Client) Fork(ctx context.Context, r ForkRequest) (Forked, error) {
	r.RequestID = cmp.Or(r.RequestID, NewID())
	if _, err := c.Thread(ctx, r.ThreadID); err != nil {
		return Forked{}, err
	}
	res, err := c.store.Fork(ctx, memory.ForkRequest{
		UserID: c.o.UserID, ThreadID: r.ThreadID, RequestID: r.RequestID, At: r.At, ConversationID: r.ConversationID,
	})
	if err != nil {
		return Forked{}, err
	}
	t, err := c.Thread(ctx, res.ThreadID)
	return Forked{ForkResult: res, SessionID: t.SessionID, ConversationID: t.ConversationID, Status: t.Status, RequestID: r.RequestID}, err
}

package spool

import (
	"cmp"
	"context"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// AskOptions are what Ask calls back, one call at a time. Each may be nil.
type AskOptions struct {
	// Update gets what the thread and its sub-agents emit, as Follow delivers it: text as
	// it streams, and each message when it is saved.
	Update func(Update)
	// Decide is the decision of an approval: its Verdict, with Calls or Instruction if
	// need be. Without it, Ask returns when the turn waits for one.
	Decide func(context.Context, ApprovalRequest) (memory.Decision, error)
	// Answer is the answer to a question. Without it, Ask returns when the turn waits
	// for one.
	Answer func(context.Context, QuestionRequest) (string, error)
}

// Ask sends a message as Send does and waits for the end of its turn; the Reply has the
// answer. What has to be decided or answered on the way it asks the callbacks, whose
// errors end it. When ctx ends, Ask does, and the turn goes on: Ask with the same
// message id waits for it again.
func (c *Client) Ask(ctx context.Context, r memory.SendRequest, o AskOptions) (Reply, error) {
	if err := c.complete(&r); err != nil {
		return Reply{}, err
	}
	from, err := c.TailTree(ctx, cmp.Or(r.ThreadID, agent.MainThreadID(r.SessionID, r.ConversationID)))
	if err != nil {
		return Reply{}, err
	}
	sent, err := c.Send(ctx, r)
	if err != nil || sent.TurnID == "" {
		return sent, err
	}
	var one sync.Mutex // a callback at a time
	follow := func(ctx context.Context, once bool) error {
		if o.Update == nil {
			return nil
		}
		options := FollowOptions{UntilTurn: sent.TurnID, Descendants: true, Once: once, From: from}
		return c.Follow(ctx, sent.ThreadID, from[sent.ThreadID], options, func(u Update) error {
			one.Lock()
			defer one.Unlock()
			from[u.ThreadID] = u.Cursor
			o.Update(u)
			return nil
		})
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	followed := make(chan error, 1)
	go func() { followed <- follow(following, false) }()
	reply, err := c.attend(ctx, sent, o, &one)
	stop()
	if cut := <-followed; cut != nil && err == nil {
		err = follow(ctx, true) // what led to the end was committed with it
	}
	return reply, err
}

// attend waits for a turn and settles what it waits for.
func (c *Client) attend(ctx context.Context, sent Reply, o AskOptions, one sync.Locker) (Reply, error) {
	for {
		reply, err := c.Wait(ctx, sent.ThreadID, sent.TurnID, WaitOptions{})
		if err != nil || (o.Decide == nil || len(reply.Pending) == 0) && (o.Answer == nil || len(reply.Questions) == 0) {
			return reply, err
		}
		if err = c.settle(ctx, reply, o, one); err != nil {
			return reply, err
		}
	}
}

// settle has the callbacks say what a turn waits for. Somebody else may be first.
func (c *Client) settle(ctx context.Context, r Reply, o AskOptions, one sync.Locker) error {
	one.Lock()
	defer one.Unlock()
	for _, a := range r.Pending {
		if o.Decide == nil {
			break
		}
		d, err := o.Decide(ctx, a)
		if d.Target = cmp.Or(d.Target, a.ApprovalID); err == nil {
			_, err = c.Decide(ctx, d)
		}
		if err != nil && agent.CodeOf(err) != agent.CodeConflict {
			return err
		}
	}
	for _, q := range r.Questions {
		if o.Answer == nil {
			break
		}
		text, err := o.Answer(ctx, q)
		if err == nil {
			_, err = c.Answer(ctx, memory.AnswerRequest{Target: q.QuestionID, Text: text})
		}
		if err != nil && agent.CodeOf(err) != agent.CodeConflict {
			return err
		}
	}
	return nil
}

package spool

import (
	"cmp"
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/amended"
	"github.com/spool-agents/spool/memory"
)

// Decided is the outcome of a decision.
type Decided struct {
	Approval memory.Approval `json:"approval"`
	Settled
}

// Answered is the outcome of an answer.
type Answered struct {
	Question memory.Question `json:"question"`
	Settled
}

// Settled says how a person's word was taken.
type Settled struct {
	// Repeated means that the same had been said before.
	Repeated bool   `json:"repeated,omitempty"`
	Note     string `json:"note,omitempty"`
	// Stored means that Temporal could not be reached: the word takes effect when a
	// worker finds it.
	Stored bool `json:"stored,omitempty"`
}

// Decide settles an approval, named by its id or one of its calls. The first
// decision wins; the same one again returns the first outcome, another is
// CodeConflict saying who decided and when.
func (c *Client) Decide(ctx context.Context, d memory.Decision) (Decided, error) {
	d.UserID = cmp.Or(d.UserID, c.o.UserID)
	d.By = cmp.Or(d.By, d.UserID)
	if err := c.mayDecide(ctx, d); err != nil {
		return Decided{}, err
	}
	res, err := c.store.Decide(ctx, d)
	if err != nil {
		return Decided{}, err
	}
	return Decided{res.Approval, c.settled(ctx, "decision", res.Approval.ThreadID, res.Repeated)}, nil
}

// Answer answers a question, named by its id or by the call that asks it. The
// first answer wins; the same one again returns the first outcome, another is
// CodeConflict saying who answered and when.
func (c *Client) Answer(ctx context.Context, r memory.AnswerRequest) (Answered, error) {
	r.UserID = cmp.Or(r.UserID, c.o.UserID)
	r.By = cmp.Or(r.By, r.UserID)
	if err := c.mayAnswer(ctx, r.Target); err != nil {
		return Answered{}, err
	}
	res, err := c.store.Answer(ctx, r)
	if err != nil {
		return Answered{}, err
	}
	return Answered{res.Question, c.settled(ctx, "answer", res.Question.ThreadID, res.Repeated)}, nil
}

// Revoke takes back what was allowed for a session: its calls ask again.
func (c *Client) Revoke(ctx context.Context, sessionID string, p memory.Permission) error {
	return c.store.Revoke(ctx, c.o.UserID, sessionID, p)
}

// settled tells the thread that waited for a person's word.
func (c *Client) settled(ctx context.Context, what, threadID string, repeated bool) Settled {
	s := Settled{Repeated: repeated}
	if err := c.nudgeWaiting(ctx, threadID); err != nil {
		s.Stored = true
		s.Note = "the " + what + " is saved, but " + err.Error() + "; a worker acts on it as soon as one runs"
	}
	return s
}

// mayDecide refuses approvals of the user's other profiles as not found, and arguments
// that an agent may not use. Those of other users the store refuses.
func (c *Client) mayDecide(ctx context.Context, d memory.Decision) error {
	found, err := c.store.Approvals(ctx, memory.ApprovalFilter{UserID: c.o.UserID, ID: d.Target})
	for _, a := range found {
		t, err := c.Thread(ctx, a.ThreadID)
		if agent.CodeOf(err) == agent.CodeNotFound { // whose it is, is not said
			err = agent.Errorf(agent.CodeNotFound, "%q is neither an approval nor a call that waits for one", d.Target)
		}
		for _, call := range a.ToolCalls {
			if args := d.Arguments[call.ID]; err == nil && args != nil && a.Decision == "" {
				err = amended.Check(t, call.ToolName, args)
			}
		}
		if err != nil {
			return err
		}
	}
	return err // the store says if there is none
}

func (c *Client) mayAnswer(ctx context.Context, target string) error {
	if c.o.UserID == "" {
		return nil
	}
	found, err := c.store.Questions(ctx, memory.QuestionFilter{UserID: c.o.UserID, ID: target})
	for _, q := range found {
		_, err = c.Thread(ctx, q.ThreadID)
	}
	return err
}

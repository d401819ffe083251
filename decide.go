package spool

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// Decided is the outcome of a decision.
type Decided struct {
	Approval memory.Approval `json:"approval"`
	// Repeated means that the same decision had been taken before.
	Repeated bool   `json:"repeated,omitempty"`
	Note     string `json:"note,omitempty"`
	// Stored means that Temporal could not be told: the decision takes effect
	// when a worker finds it.
	Stored bool `json:"stored,omitempty"`
}

// Decide settles an approval, named by its id or one of its calls. The first
// decision wins; the same one again returns the first outcome, another is
// CodeConflict saying who decided and when.
func (c *Client) Decide(ctx context.Context, d memory.Decision) (Decided, error) {
	if d.UserID == "" {
		d.UserID = c.o.UserID
	}
	if d.By == "" {
		d.By = d.UserID
	}
	if err := c.mayDecide(ctx, d.Target); err != nil {
		return Decided{}, err
	}
	res, err := c.store.Decide(ctx, d)
	if err != nil {
		return Decided{}, err
	}
	out := Decided{Approval: res.Approval, Repeated: res.Repeated}
	if err := c.tellWaiting(ctx, res.Approval.ThreadID); err != nil {
		out.Stored = true
		out.Note = "the decision is saved, but Temporal could not be told: " + err.Error() + "; a worker acts on it when it is back"
	}
	return out, nil
}

// Decisions lists all approvals of the user, decided ones too, newest last.
func (c *Client) Decisions(ctx context.Context) ([]memory.Approval, error) {
	all, err := c.store.Approvals(ctx, memory.ApprovalFilter{UserID: c.o.UserID})
	if err != nil {
		return nil, err
	}
	out, seen := []memory.Approval{}, map[string]bool{}
	for _, a := range all {
		mine, err := c.seesRoot(ctx, "", a.RootThread, seen)
		if err != nil {
			return nil, err
		}
		if mine {
			out = append(out, a)
		}
	}
	return out, nil
}

// mayDecide refuses approvals of the user's other profiles as not found. Those of
// other users the store refuses.
func (c *Client) mayDecide(ctx context.Context, target string) error {
	if c.o.UserID == "" {
		return nil
	}
	call, err := c.store.ToolCall(ctx, target)
	if err == nil {
		_, err = c.thread(ctx, call.ThreadID)
		return err
	}
	if agent.CodeOf(err) != agent.CodeNotFound {
		return err
	}
	for _, open := range []bool{true, false} {
		list, err := c.store.Approvals(ctx, memory.ApprovalFilter{UserID: c.o.UserID, OpenOnly: open})
		if err != nil {
			return err
		}
		for _, a := range list {
			if a.ID == target {
				_, err := c.thread(ctx, a.ThreadID)
				return err
			}
		}
	}
	return nil // the store says that there is none
}

// How long Cancel waits for the turn to end. A cancel that no worker settles
// within 10 s is settled by terminating the run.
const (
	cancelWait       = 20 * time.Second
	cancelWaitStored = 2 * time.Second
)

// Cancelled is the outcome of a cancel.
type Cancelled struct {
	ThreadID string              `json:"threadId"`
	TurnID   string              `json:"turnId,omitempty"`
	Turns    []memory.ThreadTurn `json:"turns"`
	// By and At are of the first request; Repeated means that it was settled
	// before this one.
	By       string     `json:"by,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	Repeated bool       `json:"repeated,omitempty"`
	// Dropped are waiting messages, Stopped background sub-agents, both with All;
	// Running are background sub-agents that go on.
	Dropped int `json:"dropped"`
	Stopped int `json:"stopped"`
	Running int `json:"running"`
	// Status is the turn's once it is closed (it may have completed just
	// before), stored if nobody has settled the cancel yet.
	Status string `json:"status"`
	Note   string `json:"note,omitempty"`
}

// Cancel asks to end a thread's open turn with its foreground descendants, and
// waits for it. With all it also drops waiting messages and stops background
// descendants, whose ends then open no turn. Repeated, it returns the first
// outcome. Nothing to cancel is CodeConflict.
func (c *Client) Cancel(ctx context.Context, r memory.CancelRequest) (Cancelled, error) {
	if r.UserID == "" {
		r.UserID = c.o.UserID
	}
	if r.By == "" {
		r.By = r.UserID
	}
	if _, err := c.thread(ctx, r.ThreadID); err != nil {
		return Cancelled{}, err
	}
	res, err := c.store.RequestCancel(ctx, r)
	if err != nil {
		return Cancelled{}, err
	}
	out := Cancelled{ThreadID: r.ThreadID, TurnID: res.TurnID, Turns: res.Turns, By: res.By, Repeated: res.Repeated,
		Dropped: res.Dropped, Stopped: res.Stopped, Running: res.Running, Status: string(agent.ThreadCancelled)}
	if res.TurnID != "" {
		out.At = &res.At
	}
	if out.Turns == nil {
		out.Turns = []memory.ThreadTurn{}
	}
	var told error
	for _, t := range res.Turns {
		if err := c.tell(ctx, contract.NudgeTarget{Thread: t.ThreadID, CancelTurn: t.TurnID}); err != nil {
			told = err
		}
	}
	if res.TurnID == "" {
		return out, nil
	}
	limit := cancelWait
	if c.temporal == nil {
		limit = cancelWaitStored
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := c.Wait(waiting, r.ThreadID, res.TurnID, WaitOptions{Patient: true})
	switch {
	case err == nil:
		out.Status = reply.Status
	case ctx.Err() != nil:
		return out, ctx.Err()
	case waiting.Err() != nil:
		out.Status = StatusStored
		out.Note = "the cancel is saved, but nobody has settled it yet; a worker does when it is up"
		if told != nil {
			out.Note += " (" + told.Error() + ")"
		}
	default:
		return out, err
	}
	return out, nil
}

package spool

import (
	"cmp"
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

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
	r.UserID = cmp.Or(r.UserID, c.o.UserID)
	r.By = cmp.Or(r.By, r.UserID)
	if _, err := c.Thread(ctx, r.ThreadID); err != nil {
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
	var unreached error
	for _, t := range res.Turns {
		if err := c.nudge(ctx, contract.NudgeTarget{Thread: t.ThreadID, CancelTurn: t.TurnID}); err != nil {
			unreached = err
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
		out.Note = "the cancel is saved, but not settled yet: a worker settles it when one runs"
		if unreached != nil {
			out.Note += " (" + unreached.Error() + ")"
		}
	default:
		return out, err
	}
	return out, nil
}

package spool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	// noWorkerAfter is how long a message may wait before Wait looks for workers.
	noWorkerAfter = 5 * time.Second
	// deserted is how many looks in a row must find none while a turn is open, as a
	// server that was started again does not know its workers for a while, or while
	// the run is on another queue, as workers then take its thread over.
	deserted = 5
)

// WaitOptions say how long to wait.
type WaitOptions struct {
	// Patient waits also for people (approvals, questions) and for a worker to come
	// up; otherwise Wait returns the status waiting_for_approval, waiting_for_user
	// or stored.
	Patient bool
}

// Wait returns when a turn is closed, or needs a person. It reads the store only,
// so that it also works while Temporal is away. A store that is away is waited for.
func (c *Client) Wait(ctx context.Context, threadID, turnID string, o WaitOptions) (Reply, error) {
	w := c.changes()
	defer w.stop()
	begun, missing, mine := time.Now(), 0, false
	for {
		if _, err := w.wait(ctx); err != nil {
			return Reply{}, err
		}
		var r Reply
		done := false
		err := error(nil)
		if !mine {
			_, err = c.thread(ctx, threadID)
			mine = err == nil
		}
		if mine {
			r, done, err = c.look(ctx, threadID, turnID, o.Patient)
		}
		switch {
		case away(ctx, err):
			continue
		case err != nil || done:
			return r, err
		}
		if !o.Patient && time.Since(begun) > noWorkerAfter {
			checked := c.Served(ctx, r)
			if missing++; checked.Status != StatusStored {
				missing = 0
			}
			if missing >= deserted || missing > 0 && r.Status == StatusQueued && c.Workers(ctx) == 0 {
				return checked, nil
			}
			begun = time.Now()
		}
	}
}

// Status tells where a message's turn stands, without waiting.
func (c *Client) Status(ctx context.Context, threadID, turnID string) (Reply, error) {
	if _, err := c.thread(ctx, threadID); err != nil {
		return Reply{}, err
	}
	r, _, err := c.look(ctx, threadID, turnID, false)
	if err == nil && r.Status == string(agent.ThreadRunning) {
		r.Waits, err = c.ModelWaits(ctx, threadID)
	}
	return r, err
}

// look reads the state of a turn; done means that there is nothing to wait for.
func (c *Client) look(ctx context.Context, threadID, turnID string, patient bool) (r Reply, done bool, err error) {
	r = c.reply(threadID, turnID)
	r.Status = StatusQueued
	turn, err := c.store.Turn(ctx, turnID)
	if agent.CodeOf(err) == agent.CodeNotFound || err == nil && turn.ThreadID != threadID {
		turn, err = c.turnOfEntry(ctx, &r)
	}
	if err != nil || r.Status == StatusDropped {
		return r, true, err
	}
	if turn.ID != "" {
		r.MessageID, r.Usage = turn.MessageID, turn.Usage
		if turn.State == memory.TurnClosed {
			r.Status, r.Outcome = string(turn.Outcome), turn.Outcome
			r.Reason, r.ErrorCode, r.Error, r.Response = turn.Reason, turn.ErrorCode, turn.Error, turn.Answer
			r.Note, err = c.noteCut(ctx, turn)
			return r, true, err
		}
		r.Status = string(agent.ThreadRunning)
	}
	if patient {
		return r, false, nil
	}
	t, err := c.thread(ctx, threadID)
	if err != nil {
		return r, true, err
	}
	blocked := turn.ID
	if blocked == "" {
		blocked = t.OpenTurnID
	}
	if blocked == "" {
		return r, false, nil
	}
	if err := c.pendingOf(ctx, t.RootThreadID, blocked, &r); err != nil {
		return r, true, err
	}
	switch {
	case len(r.Pending) > 0:
		r.Status = string(agent.ThreadWaitingForApproval)
	case len(r.Questions) > 0:
		r.Status = string(agent.ThreadWaitingForUser)
	default:
		return r, false, nil
	}
	return r, true, nil
}

// noteCut says that a completed turn's answer is cut, if the provider said so.
func (c *Client) noteCut(ctx context.Context, turn memory.Turn) (string, error) {
	if turn.Outcome != agent.ThreadCompleted {
		return "", nil
	}
	steps, err := c.store.Steps(ctx, turn.ID)
	if err != nil || len(steps) == 0 || steps[len(steps)-1].FinishReason != agent.FinishLength {
		return "", err
	}
	return agent.AnswerCut().Message, nil
}

// turnOfEntry finds the turn that took a message whose own turn does not exist:
// none yet, or the running one if the message was steered into it.
func (c *Client) turnOfEntry(ctx context.Context, r *Reply) (memory.Turn, error) {
	inbox, err := c.store.Inbox(ctx, r.ThreadID)
	if err != nil {
		return memory.Turn{}, err
	}
	for _, e := range inbox {
		if e.TurnID != r.TurnID {
			continue
		}
		r.MessageID = e.ID
		switch {
		case e.State == memory.EntryDropped:
			r.Status = StatusDropped
		case e.State == memory.EntryTaken && e.TakenBy != "" && e.TakenBy != r.TurnID:
			return c.store.Turn(ctx, e.TakenBy)
		}
		return memory.Turn{}, nil
	}
	return memory.Turn{}, agent.Errorf(agent.CodeNotFound, "thread %s has no turn %s", r.ThreadID, r.TurnID)
}

// pendingOf lists the open approvals and questions that hold up a turn: its own
// and those of its foreground descendants.
func (c *Client) pendingOf(ctx context.Context, root, turnID string, r *Reply) error {
	open, err := c.store.Approvals(ctx, memory.ApprovalFilter{UserID: c.o.UserID, RootThread: root, OpenOnly: true})
	if err != nil {
		return err
	}
	for _, a := range open {
		held, err := c.holdsUp(ctx, a.TurnID, turnID)
		if err != nil {
			return err
		}
		if held {
			r.Pending = append(r.Pending, request(a))
		}
	}
	asked, err := c.store.Questions(ctx, memory.QuestionFilter{UserID: c.o.UserID, RootThread: root, OpenOnly: true})
	if err != nil {
		return err
	}
	for _, q := range asked {
		held, err := c.holdsUp(ctx, q.TurnID, turnID)
		if err != nil {
			return err
		}
		if held {
			r.Questions = append(r.Questions, questionRequest(q))
		}
	}
	return nil
}

// holdsUp reports whether a turn is another one, or one that it waits for.
func (c *Client) holdsUp(ctx context.Context, below, turnID string) (bool, error) {
	for at := below; at != ""; {
		if at == turnID {
			return true, nil
		}
		t, err := c.store.Turn(ctx, at)
		if err != nil || t.Background {
			return false, err
		}
		at = t.DelegatorTurn
	}
	return false, nil
}

func request(a memory.Approval) ApprovalRequest {
	out := ApprovalRequest{ApprovalID: a.ID, ThreadID: a.ThreadID, RootThread: a.RootThread, Agent: a.Agent, ToolCalls: []ApprovalCall{}}
	for _, call := range a.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, ApprovalCall{ID: call.ID, ToolName: call.ToolName, Args: jsonOrText(call.Args)})
	}
	return out
}

// jsonOrText keeps arguments that are JSON and quotes what a model got wrong.
func jsonOrText(raw json.RawMessage) any {
	switch {
	case len(raw) == 0:
		return map[string]any{}
	case json.Valid(raw):
		return raw
	}
	return string(raw)
}

// Approvals lists open approvals, newest last: all of the user's, or those of the
// tree that threadID belongs to.
func (c *Client) Approvals(ctx context.Context, threadID string) ([]ApprovalRequest, error) {
	f := memory.ApprovalFilter{UserID: c.o.UserID, OpenOnly: true}
	var err error
	if f.ThreadID, f.RootThread, err = c.scope(ctx, threadID); err != nil {
		return nil, err
	}
	open, err := c.store.Approvals(ctx, f)
	if err != nil {
		return nil, err
	}
	out, seen := []ApprovalRequest{}, map[string]bool{}
	for _, a := range open {
		mine, err := c.seesRoot(ctx, threadID, a.RootThread, seen)
		if err != nil {
			return nil, err
		}
		if mine {
			out = append(out, request(a))
		}
	}
	return out, nil
}

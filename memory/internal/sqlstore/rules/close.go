package rules

import (
	"cmp"
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// SummaryLength is how much of its answer a sub-agent's thread shows.
const SummaryLength = 200

// CloseTurn ends a turn in every respect; a repeated close returns what the first one did.
func (s *Store) CloseTurn(ctx context.Context, r memory.CloseRequest) (closed memory.Closed, err error) {
	if !r.Outcome.Final() {
		return closed, agent.Errorf(agent.CodeInvalid, "outcome %q of turn %s is not valid: use completed, failed or cancelled", r.Outcome, r.TurnID)
	}
	err = s.write(ctx, "close", func(u *Unit) error {
		closed = memory.Closed{}
		t, err := u.Thread(r.ThreadID)
		if err != nil {
			return err
		}
		turn, err := u.Turn(r.TurnID)
		if err != nil {
			return err
		}
		if turn.ThreadID != t.ID {
			return agent.Errorf(agent.CodeNotFound, "turn %q does not exist in thread %s", r.TurnID, t.ID)
		}
		if turn.State == memory.TurnClosed {
			err := rows.Decode(turn.Closed, &closed)
			closed.Already = true
			return err
		}
		closed, err = u.closeTurn(t, turn, r)
		return err
	})
	return closed, err
}

func (u *Unit) closeTurn(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest) (memory.Closed, error) {
	r, err := u.answeredBefore(turn, r)
	if err != nil {
		return memory.Closed{}, err
	}
	closed := memory.Closed{Outcome: r.Outcome}
	if err := u.End(t, turn, r, &closed); err != nil {
		return closed, err
	}
	if err := u.deliver(turn, &closed); err != nil {
		return closed, err
	}
	if err := u.claimNext(t, turn, r, &closed); err != nil {
		return closed, err
	}
	return closed, u.Remember(turn, closed)
}

// answeredBefore completes a turn whose run is gone but whose final reply is stored: a
// reply that is stored is never asked for again.
func (u *Unit) answeredBefore(turn *rows.Turn, r memory.CloseRequest) (memory.CloseRequest, error) {
	if r.Outcome != agent.ThreadFailed || r.Reason != agent.ReasonTerminated {
		return r, nil
	}
	step, err := u.Step(turn.ID, turn.Saved+1)
	if err != nil || step == nil || !step.Stored {
		return r, err
	}
	reply, err := step.ModelReply()
	if err == nil && len(reply.Calls) == 0 {
		// The reason stays: it says that nothing runs a next turn.
		r.Outcome, r.Code, r.Message, r.Answer, r.Step = agent.ThreadCompleted, "", "", "", 0
	}
	return r, err
}

// Remember records what the close returned, for its repetitions.
func (u *Unit) Remember(turn *rows.Turn, closed memory.Closed) error {
	body, err := rows.Encode(closed)
	turn.Closed, turn.Dirty = body, true
	return err
}

// End is everything up to the done or error event: steps (2) to (5) of the
// state machine. It serves a turn that is closed and its descendants closed along.
func (u *Unit) End(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest, closed *memory.Closed) error {
	turn.Dirty = true
	closed.FromSeq = t.LastMessage + 1
	if err := u.Exec(`DELETE FROM reservations WHERE turn_id = ?`, turn.ID); err != nil {
		return err
	}
	if err := u.abortAsks(t, turn); err != nil {
		return err
	}
	if err := u.endChildren(t, turn, r, closed); err != nil {
		return err
	}
	answer, err := u.lastMessage(t, turn, r)
	if err != nil {
		return err
	}
	closed.ToSeq = t.LastMessage
	if closed.ToSeq < closed.FromSeq {
		closed.FromSeq, closed.ToSeq = 0, 0
	}
	t.Touch()
	turn.State, turn.Outcome, turn.Reason = memory.TurnClosed, r.Outcome, r.Reason
	turn.ClosedMs, turn.ClosedAt = t.At, rows.StampOrNil(t.At)
	turn.Answer = answer
	t.TotalTimeMs += turn.ClosedMs - turn.OpenedMs
	t.OpenTurnID, t.Status, t.Reason = "", r.Outcome, ""
	switch r.Outcome {
	case agent.ThreadCompleted:
		turn.Reason = ""
	case agent.ThreadFailed:
		turn.Reason = agent.Reason(cmp.Or(string(r.Reason), string(agent.ReasonError)))
		t.Reason = turn.Reason
	}
	if t.Kind == agent.KindSubAgent {
		t.Summary = rows.Short(answer, SummaryLength)
	}
	return u.endEvent(t, turn, r)
}

// endEvent writes the one done or error event and ends the task of a sub-agent's turn.
func (u *Unit) endEvent(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest) error {
	if turn.Outcome == agent.ThreadCompleted {
		err := u.Event(t, turn.ID, agent.EventDone, rows.TurnDone{ResponseTimeMs: turn.ClosedMs - turn.OpenedMs, Usage: turn.Usage})
		if err != nil {
			return err
		}
		return u.EndDelegatorTask(turn, turn.Answer)
	}
	turn.ErrorCode, turn.Error = r.Code, rows.Clean(r.Message)
	if turn.Outcome == agent.ThreadCancelled {
		turn.ErrorCode = "cancelled"
		turn.Error = cmp.Or(turn.Error, "the turn was cancelled")
	}
	turn.ErrorCode = cmp.Or(turn.ErrorCode, string(turn.Reason))
	turn.Error = cmp.Or(turn.Error, "the turn failed")
	retryable := turn.Outcome == agent.ThreadFailed && turn.Reason != agent.ReasonLimit && turn.Reason != agent.ReasonDenied
	err := u.Event(t, turn.ID, agent.EventError, rows.TurnError{Code: turn.ErrorCode, Message: turn.Error, Retryable: retryable})
	if err != nil {
		return err
	}
	return u.EndDelegatorTask(turn, turn.Error)
}

// EndDelegatorTask ends the task that a sub-agent's turn works on.
func (u *Unit) EndDelegatorTask(turn *rows.Turn, text string) error {
	if turn.TaskID == "" {
		return nil
	}
	parent, err := u.Thread(turn.DelegatorThread)
	if err != nil {
		return err
	}
	return u.TaskEnd(parent, turn.TaskID, agent.TaskStatusOf(turn.Outcome), text)
}

// endChildren closes the open turns of foreground descendants and drops what
// else of them waits. A completed turn has none: all its calls have results.
func (u *Unit) endChildren(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest, closed *memory.Closed) error {
	if turn.Delegations == 0 {
		return nil
	}
	below := r
	below.Step, below.Answer, below.NextConfig = 0, "", nil
	if r.Outcome == agent.ThreadCompleted {
		below.Outcome, below.Reason, below.Code = agent.ThreadCancelled, "", ""
	}
	below.Message = "the turn of its parent " + t.ID + " ended: " + string(r.Outcome)
	ids, err := u.Strings(`SELECT id FROM turns WHERE delegator_thread = ? AND delegator_thread <> '' AND delegator_turn = ? AND state = 'open' AND background = 0 ORDER BY opened_at, id`, t.ID, turn.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := u.endChild(t, turn, id, below, closed); err != nil {
			return err
		}
	}
	unstarted, err := u.Entries(`delegator_thread = ? AND delegator_turn = ? AND kind = 'assign' AND state = 'waiting' AND background = 0`, t.ID, turn.ID)
	if err != nil {
		return err
	}
	for _, e := range unstarted {
		if err := u.dropAssigned(t, e, below); err != nil {
			return err
		}
	}
	untaken, err := u.Entries(`thread_id = ? AND kind = 'child' AND state = 'waiting' AND background = 0`, t.ID)
	if err != nil {
		return err
	}
	for _, e := range untaken {
		if err := u.keepChildEnd(t, turn, e); err != nil {
			return err
		}
	}
	return nil
}

// keepChildEnd makes the end of a child that nobody has taken yet the result of its
// call: finished results stay, however the turn ends.
func (u *Unit) keepChildEnd(t *rows.Thread, turn *rows.Turn, e *rows.Entry) error {
	if e.DelegatorTurn == turn.ID {
		c, err := u.Call(turn.ID, e.CallID)
		if err != nil {
			return err
		}
		if !c.Status.Final() {
			_, err = u.takeChild(t, turn, c)
			return err
		}
	}
	if err := u.Drop(t, e); err != nil {
		return err
	}
	child, err := u.Turn(e.ChildTurn)
	if err != nil {
		return err
	}
	return u.ChildEnded(child)
}

// endChild closes a foreground child's turn along with its delegator's. Its end
// counts as taken.
func (u *Unit) endChild(t *rows.Thread, turn *rows.Turn, childTurn string, r memory.CloseRequest, closed *memory.Closed) error {
	child, err := u.Turn(childTurn)
	if err != nil {
		return err
	}
	childThread, err := u.Thread(child.ThreadID)
	if err != nil {
		return err
	}
	own := memory.Closed{Outcome: r.Outcome}
	r.ThreadID, r.TurnID = childThread.ID, child.ID
	if err := u.End(childThread, child, r, &own); err != nil {
		return err
	}
	closed.Stopped = append(closed.Stopped, memory.ThreadTurn{ThreadID: childThread.ID, TurnID: child.ID})
	closed.Stopped = append(closed.Stopped, own.Stopped...)
	if err := u.MoveReports(childThread); err != nil {
		return err
	}
	if own.Waiting, err = u.nextDelegator(childThread); err != nil {
		return err
	}
	if err := u.Remember(child, own); err != nil {
		return err
	}
	e, err := u.ChildEntry(t, child)
	if err != nil {
		return err
	}
	e.State, e.TakenBy = memory.EntryTaken, turn.ID
	if err := u.Enter(t, e); err != nil {
		return err
	}
	if err := u.AddUsageAbove(child); err != nil {
		return err
	}
	return u.ChildEnded(child)
}

// dropAssigned drops work that a child has not begun.
func (u *Unit) dropAssigned(t *rows.Thread, e *rows.Entry, r memory.CloseRequest) error {
	child, err := u.Thread(e.ThreadID)
	if err != nil {
		return err
	}
	if err := u.Drop(child, e); err != nil {
		return err
	}
	if child.Status == agent.ThreadPending {
		child.Status, child.Reason = r.Outcome, ""
		if r.Outcome == agent.ThreadFailed {
			child.Reason = r.Reason
		}
	}
	return u.TaskEnd(t, e.TaskID, agent.TaskStatusOf(r.Outcome), r.Message)
}

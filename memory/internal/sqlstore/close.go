package sqlstore

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// summaryLength is how much of its answer a sub-agent's thread shows.
const summaryLength = 200

// CloseTurn ends a turn in every respect; a repeated close returns what the first one did.
func (s *Store) CloseTurn(ctx context.Context, r memory.CloseRequest) (closed memory.Closed, err error) {
	if !r.Outcome.Final() {
		return closed, agent.Errorf(agent.CodeInvalid, "outcome %q of turn %s is not valid: use completed, failed or cancelled", r.Outcome, r.TurnID)
	}
	err = s.write(ctx, "close", func(u *unit) error {
		closed = memory.Closed{}
		t, err := u.thread(r.ThreadID)
		if err != nil {
			return err
		}
		turn, err := u.turn(r.TurnID)
		if err != nil {
			return err
		}
		if turn.ThreadID != t.ID {
			return agent.Errorf(agent.CodeNotFound, "turn %q does not exist in thread %s", r.TurnID, t.ID)
		}
		if turn.State == memory.TurnClosed {
			err := decode(turn.closed, &closed)
			closed.Already = true
			return err
		}
		closed, err = u.closeTurn(t, turn, r)
		return err
	})
	return closed, err
}

func (u *unit) closeTurn(t *threadRow, turn *turnRow, r memory.CloseRequest) (memory.Closed, error) {
	closed := memory.Closed{Outcome: r.Outcome}
	if err := u.end(t, turn, r, &closed); err != nil {
		return closed, err
	}
	if err := u.deliver(turn, &closed); err != nil {
		return closed, err
	}
	if err := u.claimNext(t, turn, r, &closed); err != nil {
		return closed, err
	}
	return closed, u.remember(turn, closed)
}

// remember records what the close returned, for its repetitions.
func (u *unit) remember(turn *turnRow, closed memory.Closed) error {
	body, err := encode(closed)
	turn.closed, turn.dirty = body, true
	return err
}

// end is everything up to the done or error event: steps (2) to (5) of the
// state machine. It serves a turn that is closed and its descendants closed along.
func (u *unit) end(t *threadRow, turn *turnRow, r memory.CloseRequest, closed *memory.Closed) error {
	turn.dirty = true
	closed.FromSeq = t.lastMessage + 1
	if err := u.exec(`DELETE FROM reservations WHERE turn_id = ?`, turn.ID); err != nil {
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
	closed.ToSeq = t.lastMessage
	if closed.ToSeq < closed.FromSeq {
		closed.FromSeq, closed.ToSeq = 0, 0
	}
	t.touch()
	turn.State, turn.Outcome, turn.Reason = memory.TurnClosed, r.Outcome, r.Reason
	turn.closedMs, turn.ClosedAt = t.at, stampOrNil(t.at)
	turn.Answer = answer
	t.TotalTimeMs += turn.closedMs - turn.opened
	t.OpenTurnID, t.Status, t.Reason = "", r.Outcome, ""
	switch r.Outcome {
	case agent.ThreadCompleted:
		turn.Reason = ""
	case agent.ThreadFailed:
		turn.Reason = agent.Reason(or(string(r.Reason), string(agent.ReasonError)))
		t.Reason = turn.Reason
	}
	if t.Kind == agent.KindSubAgent {
		t.Summary = short(answer, summaryLength)
	}
	return u.endEvent(t, turn, r)
}

// endEvent writes the one done or error event and ends the task of a sub-agent's turn.
func (u *unit) endEvent(t *threadRow, turn *turnRow, r memory.CloseRequest) error {
	if turn.Outcome == agent.ThreadCompleted {
		err := u.event(t, turn.ID, agent.EventDone, turnDone{ResponseTimeMs: turn.closedMs - turn.opened, Usage: turn.Usage})
		if err != nil {
			return err
		}
		return u.endDelegatorTask(turn, turn.Answer)
	}
	turn.ErrorCode, turn.Error = r.Code, clean(r.Message)
	if turn.Outcome == agent.ThreadCancelled {
		turn.ErrorCode = "cancelled"
		turn.Error = or(turn.Error, "the turn was cancelled")
	}
	turn.ErrorCode = or(turn.ErrorCode, string(turn.Reason))
	turn.Error = or(turn.Error, "the turn failed")
	retryable := turn.Outcome == agent.ThreadFailed && turn.Reason != agent.ReasonLimit && turn.Reason != agent.ReasonDenied
	err := u.event(t, turn.ID, agent.EventError, turnError{Code: turn.ErrorCode, Message: turn.Error, Retryable: retryable})
	if err != nil {
		return err
	}
	return u.endDelegatorTask(turn, turn.Error)
}

func (u *unit) endDelegatorTask(turn *turnRow, text string) error {
	if turn.TaskID == "" {
		return nil
	}
	parent, err := u.thread(turn.DelegatorThread)
	if err != nil {
		return err
	}
	return u.taskEnd(parent, turn.TaskID, agent.TaskStatusOf(turn.Outcome), text)
}

// endChildren closes the open turns of foreground descendants and drops what
// else of them waits. A completed turn has none: all its calls have results.
func (u *unit) endChildren(t *threadRow, turn *turnRow, r memory.CloseRequest, closed *memory.Closed) error {
	if turn.delegations == 0 {
		return nil
	}
	below := r
	below.Step, below.Answer, below.NextConfig = 0, "", nil
	if r.Outcome == agent.ThreadCompleted {
		below.Outcome, below.Reason, below.Code = agent.ThreadCancelled, "", ""
	}
	below.Message = "the turn of its parent " + t.ID + " ended: " + string(r.Outcome)
	ids, err := u.strings(`SELECT id FROM turns WHERE delegator_thread = ? AND delegator_thread <> '' AND delegator_turn = ? AND state = 'open' AND background = 0 ORDER BY opened_at, id`, t.ID, turn.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := u.endChild(t, turn, id, below, closed); err != nil {
			return err
		}
	}
	unstarted, err := u.entries(`delegator_thread = ? AND delegator_turn = ? AND kind = 'assign' AND state = 'waiting' AND background = 0`, t.ID, turn.ID)
	if err != nil {
		return err
	}
	for _, e := range unstarted {
		if err := u.dropAssigned(t, e, below); err != nil {
			return err
		}
	}
	untaken, err := u.entries(`thread_id = ? AND kind = 'child' AND state = 'waiting' AND background = 0`, t.ID)
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
func (u *unit) keepChildEnd(t *threadRow, turn *turnRow, e *entryRow) error {
	if e.DelegatorTurn == turn.ID {
		c, err := u.call(turn.ID, e.CallID)
		if err != nil {
			return err
		}
		if !c.Status.Final() {
			_, err = u.takeChild(t, turn, c)
			return err
		}
	}
	if err := u.drop(t, e); err != nil {
		return err
	}
	child, err := u.turn(e.ChildTurn)
	if err != nil {
		return err
	}
	return u.childEnded(child)
}

// endChild closes a foreground child's turn along with its delegator's. Its end
// counts as taken.
func (u *unit) endChild(t *threadRow, turn *turnRow, childTurn string, r memory.CloseRequest, closed *memory.Closed) error {
	child, err := u.turn(childTurn)
	if err != nil {
		return err
	}
	childThread, err := u.thread(child.ThreadID)
	if err != nil {
		return err
	}
	own := memory.Closed{Outcome: r.Outcome}
	r.ThreadID, r.TurnID = childThread.ID, child.ID
	if err := u.end(childThread, child, r, &own); err != nil {
		return err
	}
	closed.Stopped = append(closed.Stopped, memory.ThreadTurn{ThreadID: childThread.ID, TurnID: child.ID})
	closed.Stopped = append(closed.Stopped, own.Stopped...)
	if err := u.moveReports(childThread); err != nil {
		return err
	}
	if own.Waiting, err = u.nextDelegator(childThread); err != nil {
		return err
	}
	if err := u.remember(child, own); err != nil {
		return err
	}
	e, err := u.childEntry(t, child)
	if err != nil {
		return err
	}
	e.State, e.TakenBy = memory.EntryTaken, turn.ID
	if err := u.enter(t, e); err != nil {
		return err
	}
	if err := u.addUsageAbove(child); err != nil {
		return err
	}
	return u.childEnded(child)
}

// dropAssigned drops work that a child has not begun.
func (u *unit) dropAssigned(t *threadRow, e *entryRow, r memory.CloseRequest) error {
	child, err := u.thread(e.ThreadID)
	if err != nil {
		return err
	}
	if err := u.drop(child, e); err != nil {
		return err
	}
	if child.Status == agent.ThreadPending {
		child.Status, child.Reason = r.Outcome, ""
		if r.Outcome == agent.ThreadFailed {
			child.Reason = r.Reason
		}
	}
	return u.taskEnd(t, e.TaskID, agent.TaskStatusOf(r.Outcome), r.Message)
}

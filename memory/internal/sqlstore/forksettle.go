package sqlstore

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// settle ends what the copy cannot go on with: the turn that was cut, and work
// that had not begun. The ends of sub-agents stand with their delegators.
func (f *fork) settle(one *forkThread) error {
	t := one.t
	r := memory.CloseRequest{ThreadID: t.ID, Outcome: agent.ThreadCancelled, Message: cutText}
	if one.open != nil {
		turn, err := f.turn(f.newTurn(one.open.ID))
		if err != nil {
			return err
		}
		closed := memory.Closed{Outcome: r.Outcome}
		if err := f.end(t, turn, r, &closed); err != nil {
			return err
		}
		if err := f.remember(turn, closed); err != nil {
			return err
		}
		if err := f.note(turn); err != nil {
			return err
		}
	}
	for _, e := range one.unbegun {
		t.lastTurn++
		turn := &turnRow{Turn: memory.Turn{
			ID: f.newID(e.TurnID), ThreadID: t.ID, EntryKind: e.Kind, MessageID: f.newID(e.ID), State: memory.TurnClosed, Outcome: agent.ThreadCancelled,
			DelegatorThread: f.newThread(e.DelegatorThread), DelegatorTurn: f.newID(e.DelegatorTurn), DelegatorCall: f.newID(e.CallID),
			TaskID: f.newID(e.TaskID), Background: e.Background,
		}, n: t.lastTurn, opened: t.at, closedMs: t.at}
		if err := f.insertTurn(turn); err != nil {
			return err
		}
		t.TaskID = turn.TaskID
		if err := f.endEvent(t, turn, r); err != nil {
			return err
		}
		if err := f.remember(turn, memory.Closed{Outcome: agent.ThreadCancelled}); err != nil {
			return err
		}
		if err := f.note(turn); err != nil {
			return err
		}
	}
	for _, src := range one.ended {
		turn, err := f.turn(f.newTurn(src.ID))
		if err != nil {
			return err
		}
		if err := f.note(turn); err != nil {
			return err
		}
	}
	if t.Kind == agent.KindSubAgent && len(one.turns) == 0 {
		t.Status = agent.ThreadCancelled
		t.TaskID = or(t.TaskID, agent.TaskID(t.ParentToolCallID))
	}
	return nil
}

// note writes the end of a sub-agent's turn to its delegator's log and inbox, if
// it does not stand there. It opens nothing.
func (f *fork) note(turn *turnRow) error {
	if turn.DelegatorThread == "" {
		return nil
	}
	var told, entered int
	err := f.row(`SELECT COUNT(*) FROM events WHERE thread_id = ? AND type = ? AND data LIKE ?`,
		turn.DelegatorThread, agent.EventSubAgentCompleted, `%"`+turn.DelegatorCall+`"%`).Scan(&told)
	if err != nil {
		return err
	}
	if told == 0 {
		if err := f.childEnded(turn); err != nil {
			return err
		}
	}
	if err := f.row(`SELECT COUNT(*) FROM inbox WHERE kind = 'child' AND child_turn = ?`, turn.ID).Scan(&entered); err != nil || entered > 0 {
		return err
	}
	delegator, err := f.thread(turn.DelegatorThread)
	if err != nil {
		return err
	}
	e, err := f.childEntry(delegator, turn)
	if err != nil {
		return err
	}
	e.State = memory.EntryDropped
	return f.enter(delegator, e)
}

package sqlstore

import (
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// settle ends what the copy cannot go on with: the turn that was cut, and work
// that had not begun. The ends of sub-agents are noted.
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
		if err := f.note(turn, one.open.State == memory.TurnOpen); err != nil {
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
		if err := f.endEvent(t, turn, r); err != nil {
			return err
		}
		if err := f.remember(turn, memory.Closed{Outcome: agent.ThreadCancelled}); err != nil {
			return err
		}
		if err := f.note(turn, false); err != nil {
			return err
		}
	}
	for _, src := range one.ended {
		turn, err := f.turn(f.newTurn(src.ID))
		if err != nil {
			return err
		}
		if err := f.note(turn, false); err != nil {
			return err
		}
	}
	if t.Kind == agent.KindSubAgent && len(one.turns) == 0 {
		t.Status = agent.ThreadCancelled
		t.TaskID = or(t.TaskID, agent.TaskID(t.ParentToolCallID))
	}
	return nil
}

// writeSummaries copies what the model was told instead of older messages.
func (f *fork) writeSummaries(one *forkThread) error {
	t := one.t
	for _, s := range one.summaries {
		t.Compactions++
		if s.Text != "" {
			t.summarizedFrom, t.summarizedTo = s.ReplacesFrom, s.ReplacesTo
		}
		s.TurnID, s.ThreadID, s.Text = f.newTurn(s.TurnID), t.ID, f.text(s.Text)
		if err := f.exec(insertSummary, s.values()...); err != nil {
			return err
		}
	}
	t.loaded()
	return nil
}

// note writes the end of a sub-agent's turn in the background to its delegator's
// log and the root's inbox. It opens no turn: the next one tells it. What the child used is in the copied turn
// above it unless that was cut, or unless the child is at work in the original.
func (f *fork) note(turn *turnRow, atWork bool) error {
	if turn.DelegatorThread == "" {
		return nil
	}
	if atWork || f.wasCut(turn.DelegatorTurn) {
		if err := f.addUsageAbove(turn); err != nil {
			return err
		}
	}
	var told int
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
	root := f.list[0].t
	e, err := f.childEntry(root, turn)
	if err != nil {
		return err
	}
	e.Quiet = true
	return f.enter(root, e)
}

// wasCut reports whether a copied turn is one that is cut.
func (f *fork) wasCut(turnID string) bool {
	return slices.ContainsFunc(f.list, func(one *forkThread) bool {
		return one.open != nil && f.newTurn(one.open.ID) == turnID
	})
}

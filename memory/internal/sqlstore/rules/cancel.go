package rules

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// RequestCancel marks a thread's open turn as to be cancelled.
func (s *Store) RequestCancel(ctx context.Context, r memory.CancelRequest) (res memory.CancelResult, err error) {
	err = s.write(ctx, "cancel", func(u *Unit) error {
		res = memory.CancelResult{}
		t, err := u.ThreadOf(r.UserID, r.ThreadID)
		if err != nil {
			return err
		}
		turn, err := u.named(t, r.TurnID)
		if err != nil {
			return err
		}
		if turn != nil {
			r.TurnID = turn.ID // should this be run again, it is about the same turn
		}
		if turn != nil && turn.State == memory.TurnOpen {
			if err := u.requestCancel(turn, r.By, &res); err != nil {
				return err
			}
		}
		if r.All {
			err = u.cancelRest(t, r.By, &res)
		} else {
			res.Running, err = u.runningBelow(t)
		}
		if err != nil {
			return err
		}
		if turn != nil {
			res.TurnID, res.By, res.At = turn.ID, turn.CancelBy, rows.Stamp(turn.CancelMs)
			res.Repeated = turn.State == memory.TurnClosed
		}
		if turn == nil && res.Dropped == 0 && res.Stopped == 0 {
			return agent.Errorf(agent.CodeConflict, "nothing to cancel: thread %s has %s", t.ID, openInstead(t.OpenTurnID, r.TurnID))
		}
		return nil
	})
	return res, err
}

// named is the turn that a request is about: the open one, or one that was
// closed after an earlier request; nil if there is none.
func (u *Unit) named(t *rows.Thread, turnID string) (*rows.Turn, error) {
	if t.OpenTurnID != "" && (turnID == "" || turnID == t.OpenTurnID) {
		return u.Turn(t.OpenTurnID)
	}
	turn, err := u.LastTurn(t)
	if turnID != "" {
		turn, err = u.Turn(turnID)
		if agent.CodeOf(err) == agent.CodeNotFound {
			return nil, nil
		}
	}
	if err != nil || turn == nil || turn.ThreadID != t.ID || turn.CancelMs == 0 {
		return nil, err
	}
	return turn, nil
}

// cancelledAbove reports ErrCancelRequested if the turn, or one that waits for it,
// is to be cancelled: what it would start in the background would outlive the
// request, which could not see it.
func (u *Unit) cancelledAbove(turn *rows.Turn) error {
	for at := turn; ; {
		if at.CancelMs != 0 {
			return memory.CancelRequested(turn.ID)
		}
		if at.DelegatorThread == "" || at.Background {
			return nil
		}
		above, err := u.Turn(at.DelegatorTurn)
		if err != nil {
			return err
		}
		at = above
	}
}

// openInstead says which turn is open in place of the one that was named.
func openInstead(open, named string) string {
	if open == "" {
		return "no open turn"
	}
	return "turn " + open + " open, not " + named
}

// requestCancel marks an open turn; the first request wins.
func (u *Unit) requestCancel(turn *rows.Turn, by string, res *memory.CancelResult) error {
	res.Turns = append(res.Turns, memory.ThreadTurn{ThreadID: turn.ThreadID, TurnID: turn.ID})
	if turn.CancelMs != 0 {
		return nil
	}
	t, err := u.Thread(turn.ThreadID)
	if err != nil {
		return err
	}
	t.Touch()
	turn.CancelMs, turn.CancelBy, turn.Dirty = t.At, by, true
	return nil
}

const (
	// below are the descendants of a thread.
	below = `WITH RECURSIVE below (id) AS (SELECT id FROM threads WHERE parent_id = ? AND parent_id <> '' UNION ALL ` +
		`SELECT threads.id FROM threads JOIN below ON threads.parent_id = below.id AND threads.parent_id <> '') `
	openBelow   = `thread_id IN (SELECT id FROM below) AND state = 'open' AND background = 1`
	queuedBelow = `thread_id IN (SELECT id FROM below) AND state = 'waiting' AND kind = 'assign' AND background = 1`
)

// runningBelow counts the background work below a thread.
func (u *Unit) runningBelow(t *rows.Thread) (n int, err error) {
	if t.LastChild == 0 {
		return 0, nil
	}
	err = u.Row(below+`SELECT (SELECT COUNT(*) FROM turns WHERE `+openBelow+` AND cancel_at = 0) + (SELECT COUNT(*) FROM inbox WHERE `+queuedBelow+`)`, t.ID).Scan(&n)
	return n, err
}

// cancelRest drops what waits and stops what runs in the background below a
// thread. Nobody wants a turn for the ends of that: they come with the next
// message, and so do those that wait.
func (u *Unit) cancelRest(t *rows.Thread, by string, res *memory.CancelResult) error {
	if err := u.quietReports(t); err != nil {
		return err
	}
	waiting, err := u.Entries(`thread_id = ? AND state = 'waiting' AND kind IN ('message', 'retry')`, t.ID)
	if err != nil {
		return err
	}
	for _, e := range waiting {
		if err := u.Drop(t, e); err != nil {
			return err
		}
		res.Dropped++
	}
	ids, err := u.Strings(below+`SELECT id FROM turns WHERE `+openBelow+` ORDER BY opened_at, id`, t.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		turn, err := u.Turn(id)
		if err != nil {
			return err
		}
		if turn.CancelMs == 0 {
			res.Stopped++
		}
		turn.Quiet, turn.Dirty = true, true
		if err := u.requestCancel(turn, by, res); err != nil {
			return err
		}
	}
	entries, err := rows.Find(u, (*rows.Entry).Targets, (*rows.Entry).Loaded, below+rows.SelectEntry+` WHERE `+queuedBelow+` ORDER BY thread_id, seq`, t.ID)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := u.EndUnstarted(e); err != nil {
			return err
		}
		res.Stopped++
	}
	return nil
}

// quietReports makes the ends of background children that wait in the inbox of a thread,
// or of one below it, quiet: those below are moved up when their reader is closed.
func (u *Unit) quietReports(t *rows.Thread) error {
	if t.LastChild == 0 {
		return nil
	}
	const unread = `state = 'waiting' AND quiet = 0 AND kind = 'child' AND background = 1 AND (thread_id = ? OR thread_id IN (SELECT id FROM below))`
	entries, err := rows.Find(u, (*rows.Entry).Targets, (*rows.Entry).Loaded, below+rows.SelectEntry+` WHERE `+unread+` ORDER BY thread_id, seq`, t.ID, t.ID)
	if err != nil {
		return err
	}
	for _, e := range entries {
		reader, err := u.Thread(e.ThreadID)
		if err != nil {
			return err
		}
		reader.Touch()
		reader.Waiting--
		if err := u.Exec(`UPDATE inbox SET quiet = 1 WHERE thread_id = ? AND seq = ?`, e.ThreadID, e.Seq); err != nil {
			return err
		}
	}
	return nil
}

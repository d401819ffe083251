package rules

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// RequestCancel marks a thread's open turn as to be cancelled.
func (s *Store) RequestCancel(ctx context.Context, r memory.CancelRequest) (memory.CancelResult, error) {
	return writing(ctx, s, "cancel", func(u *Unit) (res memory.CancelResult) {
		t := u.ThreadOf(r.UserID, r.ThreadID)
		turn := u.named(t, r.TurnID)
		if turn != nil {
			r.TurnID = turn.ID // should this be run again, it is about the same turn
		}
		if turn != nil && turn.State == memory.TurnOpen {
			u.requestCancel(turn, r.By, &res)
		}
		if r.All {
			u.cancelRest(t, r.By, &res)
		} else {
			res.Running = u.runningBelow(t)
		}
		if turn != nil {
			res.TurnID, res.By, res.At = turn.ID, turn.CancelBy, rows.Stamp(turn.CancelMs)
			res.Repeated = turn.State == memory.TurnClosed
		}
		if turn == nil && res.Dropped == 0 && res.Stopped == 0 {
			rows.Refuse(agent.CodeConflict, "nothing to cancel: thread %s has %s", t.ID, openInstead(t.OpenTurnID, r.TurnID))
		}
		return res
	})
}

// named is the turn that a request is about: the open one, or one that was
// closed after an earlier request; nil if there is none.
func (u *Unit) named(t *rows.Thread, turnID string) *rows.Turn {
	if t.OpenTurnID != "" && (turnID == "" || turnID == t.OpenTurnID) {
		return u.Turn(t.OpenTurnID)
	}
	turn := u.LastTurn(t)
	if turnID != "" {
		turn = u.FindTurn(turnID)
	}
	if turn == nil || turn.ThreadID != t.ID || turn.CancelMs == 0 {
		return nil
	}
	return turn
}

// cancelledAbove reports ErrCancelRequested if the turn, or one that waits for it,
// is to be cancelled: what it would start in the background would outlive the
// request, which could not see it.
func (u *Unit) cancelledAbove(turn *rows.Turn) {
	for at := turn; ; {
		if at.CancelMs != 0 {
			rows.Check(memory.CancelRequested(turn.ID))
		}
		if at.DelegatorThread == "" || at.Background {
			return
		}
		at = u.Turn(at.DelegatorTurn)
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
func (u *Unit) requestCancel(turn *rows.Turn, by string, res *memory.CancelResult) {
	res.Turns = append(res.Turns, memory.ThreadTurn{ThreadID: turn.ThreadID, TurnID: turn.ID})
	if turn.CancelMs != 0 {
		return
	}
	t := u.Thread(turn.ThreadID)
	t.Touch()
	turn.CancelMs, turn.CancelBy, turn.Dirty = t.At, by, true
}

const (
	// below are the descendants of a thread.
	below = `WITH RECURSIVE below (id) AS (SELECT id FROM threads WHERE parent_id = ? AND parent_id <> '' UNION ALL ` +
		`SELECT threads.id FROM threads JOIN below ON threads.parent_id = below.id AND threads.parent_id <> '') `
	openBelow   = `thread_id IN (SELECT id FROM below) AND state = 'open' AND background = 1`
	queuedBelow = `thread_id IN (SELECT id FROM below) AND state = 'waiting' AND kind = 'assign' AND background = 1`
)

// runningBelow counts the background work below a thread.
func (u *Unit) runningBelow(t *rows.Thread) (n int) {
	if t.LastChild == 0 {
		return 0
	}
	rows.Check(u.Row(below+`SELECT (SELECT COUNT(*) FROM turns WHERE `+openBelow+` AND cancel_at = 0) + (SELECT COUNT(*) FROM inbox WHERE `+queuedBelow+`)`, t.ID).Scan(&n))
	return n
}

// cancelRest drops what waits and stops what runs in the background below a
// thread. Nobody wants a turn for the ends of that: they come with the next
// message, and so do those that wait.
func (u *Unit) cancelRest(t *rows.Thread, by string, res *memory.CancelResult) {
	u.quietReports(t)
	for _, e := range u.Entries(`thread_id = ? AND state = 'waiting' AND kind IN ('message', 'retry')`, t.ID) {
		u.Drop(t, e)
		res.Dropped++
	}
	for _, id := range u.Strings(below+`SELECT id FROM turns WHERE `+openBelow+` ORDER BY opened_at, id`, t.ID) {
		turn := u.Turn(id)
		if turn.CancelMs == 0 {
			res.Stopped++
		}
		turn.Quiet, turn.Dirty = true, true
		u.requestCancel(turn, by, res)
	}
	entries := rows.Find(u, (*rows.Entry).Targets, (*rows.Entry).Loaded, below+rows.SelectEntry+` WHERE `+queuedBelow+` ORDER BY thread_id, seq`, t.ID)
	for _, e := range entries {
		u.EndUnstarted(e)
		res.Stopped++
	}
}

// quietReports makes the ends of background children that wait in the inbox of a thread,
// or of one below it, quiet: those below are moved up when their reader is closed.
func (u *Unit) quietReports(t *rows.Thread) {
	if t.LastChild == 0 {
		return
	}
	const unread = `state = 'waiting' AND quiet = 0 AND kind = 'child' AND background = 1 AND (thread_id = ? OR thread_id IN (SELECT id FROM below))`
	entries := rows.Find(u, (*rows.Entry).Targets, (*rows.Entry).Loaded, below+rows.SelectEntry+` WHERE `+unread+` ORDER BY thread_id, seq`, t.ID, t.ID)
	for _, e := range entries {
		reader := u.Thread(e.ThreadID)
		reader.Touch()
		reader.Waiting--
		u.Exec(`UPDATE inbox SET quiet = 1 WHERE thread_id = ? AND seq = ?`, e.ThreadID, e.Seq)
	}
}

// CleanUp takes sub-agents that ended before from the lists of sub-agents.
func (s *Store) CleanUp(ctx context.Context, userID string, age time.Duration) (int, error) {
	return writing(ctx, s, "clean-up", func(u *Unit) int {
		of, args := "", []any{u.Now - age.Milliseconds()}
		if userID != "" {
			of, args = " AND user_id = ?", append(args, userID)
		}
		old := u.Strings(`SELECT id FROM threads WHERE kind = 'subagent' AND `+rows.Ended+` AND waiting = 0 AND updated_at <= ?`+of+
			` AND NOT EXISTS (SELECT 1 FROM forgotten g WHERE g.thread_id = threads.id)`, args...)
		for _, id := range old {
			u.Exec(`INSERT INTO forgotten (thread_id, at) VALUES (?, ?) ON CONFLICT (thread_id) DO NOTHING`, id, u.Now)
		}
		return len(old)
	})
}

package sqlstore

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// RequestCancel marks a thread's open turn as to be cancelled.
func (s *Store) RequestCancel(ctx context.Context, r memory.CancelRequest) (res memory.CancelResult, err error) {
	err = s.write(ctx, "cancel", func(u *unit) error {
		res = memory.CancelResult{}
		t, err := u.owned(r.UserID, r.ThreadID)
		if err != nil {
			return err
		}
		matches := t.OpenTurnID != "" && (r.TurnID == "" || r.TurnID == t.OpenTurnID)
		if matches {
			if err := u.requestCancel(t.OpenTurnID, r.By, &res); err != nil {
				return err
			}
			res.TurnID = t.OpenTurnID
		}
		if r.All {
			if err := u.cancelRest(t, r.By, &res); err != nil {
				return err
			}
		}
		if !matches && res.Dropped == 0 && len(res.Turns) == 0 {
			return agent.Errorf(agent.CodeConflict, "nothing to cancel: thread %s has %s", t.ID, openInstead(t.OpenTurnID, r.TurnID))
		}
		return nil
	})
	return res, err
}

// openInstead says which turn is open in place of the one that was named.
func openInstead(open, named string) string {
	if open == "" {
		return "no open turn"
	}
	return "turn " + open + " open, not " + named
}

// requestCancel marks a turn; the first request wins.
func (u *unit) requestCancel(turnID, by string, res *memory.CancelResult) error {
	turn, err := u.turn(turnID)
	if err != nil {
		return err
	}
	res.Turns = append(res.Turns, memory.ThreadTurn{ThreadID: turn.ThreadID, TurnID: turn.ID})
	if turn.cancelAt != 0 {
		return nil
	}
	t, err := u.thread(turn.ThreadID)
	if err != nil {
		return err
	}
	t.touch()
	turn.cancelAt, turn.CancelBy, turn.dirty = t.at, by, true
	return nil
}

// cancelRest drops what waits and stops what runs in the background below a thread.
func (u *unit) cancelRest(t *threadRow, by string, res *memory.CancelResult) error {
	waiting, err := u.entries(`thread_id = ? AND state = 'waiting' AND kind IN ('message', 'retry')`, t.ID)
	if err != nil {
		return err
	}
	for _, e := range waiting {
		if err := u.drop(t, e); err != nil {
			return err
		}
		res.Dropped++
	}
	below := `WITH RECURSIVE below (id) AS (SELECT id FROM threads WHERE parent_id = ? UNION ALL ` +
		`SELECT threads.id FROM threads JOIN below ON threads.parent_id = below.id) `
	ids, err := u.strings(below+`SELECT id FROM turns WHERE thread_id IN (SELECT id FROM below) AND state = 'open' AND background = 1 ORDER BY opened_at, id`, t.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := u.requestCancel(id, by, res); err != nil {
			return err
		}
	}
	queued, err := u.rows(below+selectEntry+` WHERE thread_id IN (SELECT id FROM below) AND state = 'waiting' AND kind = 'assign' AND background = 1 ORDER BY thread_id, seq`, t.ID)
	entries, err := collect(queued, err, (*entryRow).targets, (*entryRow).loaded)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := u.endUnstarted(e); err != nil {
			return err
		}
		res.Dropped++
	}
	return nil
}

// strings reads a column of text.
func (u *unit) strings(query string, args ...any) ([]string, error) {
	rows, err := u.rows(query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

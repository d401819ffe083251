package read

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Waited is how long a turn, or a turn below it in the foreground, has waited
// for people. What was waited for at the same time counts once.
func (s *Store) Waited(ctx context.Context, turnID string) (w memory.Waited, err error) {
	now, err := s.rows.Now(ctx)
	if err != nil {
		return w, err
	}
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		w = memory.Waited{}
		var root string
		err := q.Row(`SELECT t.root_id FROM turns n JOIN threads t ON t.id = n.thread_id WHERE n.id = ?`, turnID).Scan(&root)
		if rows.NoRows(err) {
			return agent.Errorf(agent.CodeNotFound, "turn %q does not exist", turnID)
		}
		if err != nil {
			return err
		}
		waits, err := rows.Find(q, func(p *pause) []any { return []any{&p.turn, &p.from, &p.until} }, nil, `SELECT turn_id, created_at, settled_at FROM asks WHERE root_id = ? ORDER BY created_at`, root)
		if err != nil {
			return err
		}
		last := int64(0) // until when time is counted
		for _, p := range waits {
			below, err := foregroundOf(q, p.turn, turnID)
			if err != nil {
				return err
			}
			if !below {
				continue
			}
			if p.until == 0 {
				p.until, w.Now = now.UnixMilli(), true
			}
			if from := max(p.from, last); p.until > from {
				w.Time += time.Duration(p.until-from) * time.Millisecond
				last = p.until
			}
		}
		return nil
	})
	return w, err
}

// pause is how long a turn waited for one decision or answer; until is 0 while it
// does.
type pause struct {
	turn        string
	from, until int64
}

// foregroundOf reports whether a turn is another one, or somebody waits for it
// on behalf of that.
func foregroundOf(q rows.Rower, turnID, above string) (bool, error) {
	for id := turnID; id != ""; {
		if id == above {
			return true, nil
		}
		var background bool
		err := q.Row(`SELECT delegator_turn, background FROM turns WHERE id = ?`, id).Scan(&id, (*rows.IntBool)(&background))
		if rows.NoRows(err) || background {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

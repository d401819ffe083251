package read

import (
	"context"
	"time"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Overdue lists threads that need a nudge, each once, oldest first of its kind:
// idle ones with a takeable entry, ones whose cancel is not settled, ones at work
// with an untaken end of a foreground child, and ones whose run has not reacted
// to a decided approval or an answered question.
func (s *Store) Overdue(ctx context.Context, age time.Duration, limit int) ([]memory.Overdue, error) {
	now, err := s.rows.Now(ctx)
	if err != nil {
		return nil, err
	}
	before := now.Add(-age).UnixMilli()
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) (overdue []memory.Overdue) {
		seen := map[string]bool{}
		for _, query := range []string{overdueIdle, overdueCancel, overdueChild, overdueSettled} {
			args := []any{before, limitOf(limit)}
			if query == overdueSettled {
				args = append([]any{before - settledWithin.Milliseconds()}, args...)
			}
			for _, o := range rows.Find(q, (*overdueRow).targets, nil, query, args...) {
				if !seen[o.ThreadID] && (limit <= 0 || len(overdue) < limit) {
					seen[o.ThreadID] = true
					o.Age = now.Sub(rows.Stamp(o.since))
					overdue = append(overdue, o.Overdue)
				}
			}
		}
		return overdue
	})
}

const (
	// overdueIdle names the delegator of the entry that comes next, which is the
	// thread's oldest, whatever is overdue.
	overdueIdle = `SELECT t.id, t.kind, 1, CASE WHEN i.background = 1 THEN '' ELSE i.delegator_thread END, '', i.created_at` +
		` FROM inbox i JOIN threads t ON t.id = i.thread_id` +
		` WHERE i.state = 'waiting' AND i.created_at <= ? AND t.open_turn = '' AND i.quiet = 0 AND (i.kind <> 'child' OR i.background = 1)` +
		` AND NOT EXISTS (SELECT 1 FROM inbox o WHERE o.thread_id = i.thread_id AND o.state = 'waiting' AND o.seq < i.seq` +
		` AND o.quiet = 0 AND (o.kind <> 'child' OR o.background = 1)) ORDER BY i.created_at LIMIT ?`
	overdueChild = `SELECT t.id, t.kind, 0, '', '', MIN(i.created_at) FROM inbox i JOIN threads t ON t.id = i.thread_id` +
		` WHERE i.state = 'waiting' AND i.created_at <= ? AND t.open_turn <> '' AND i.kind = 'child' AND i.background = 0` +
		` GROUP BY t.id, t.kind ORDER BY 6 LIMIT ?`
	overdueCancel = `SELECT t.id, t.kind, 0, '', n.id, n.cancel_at FROM turns n JOIN threads t ON t.id = n.thread_id` +
		` WHERE n.state = 'open' AND n.cancel_at > 0 AND n.cancel_at <= ? ORDER BY n.cancel_at LIMIT ?`
	// unreacted is a condition on what a person settled (a) of an open turn (n): its step is
	// the last one begun and nothing of it runs or waits. A run that has reacted starts its
	// calls, saves the round (that of an answer is saved with it) or begins the next step.
	unreacted = ` a.turn_id = n.id AND a.step = n.steps AND a.outcome <> '' AND (a.kind = 'question' OR a.step > n.saved)` +
		` AND NOT EXISTS (SELECT 1 FROM tool_calls c WHERE c.turn_id = n.id AND c.step = a.step AND c.status IN ('running', 'awaiting_approval'))`
	// overdueSettled reads what was settled lately, however many turns are open: CROSS JOIN
	// keeps SQLite from beginning with those, the limit PostgreSQL.
	overdueSettled = `SELECT t.id, t.kind, 0, '', '', MAX(a.settled_at) FROM (SELECT * FROM asks WHERE outcome <> '' AND settled_at > ? ORDER BY settled_at LIMIT 1000) a` +
		` CROSS JOIN turns n JOIN threads t ON t.id = n.thread_id AND t.open_turn = n.id WHERE` + unreacted +
		` GROUP BY t.id, t.kind HAVING MAX(a.settled_at) <= ? ORDER BY 6 LIMIT ?`
	// settledWithin is how long after it came of age Overdue tells of what people settled.
	settledWithin = 2 * time.Minute
)

type overdueRow struct {
	memory.Overdue
	since int64
}

func (o *overdueRow) targets() []any {
	return []any{&o.ThreadID, &o.Kind, &o.Idle, &o.Delegator, &o.CancelTurn, &o.since}
}

type openTurnRow struct {
	memory.OpenTurn
	opened int64
}

// OpenTurns lists open turns, oldest first.
func (s *Store) OpenTurns(ctx context.Context, f memory.OpenTurnFilter) ([]memory.OpenTurn, error) {
	now, err := s.rows.Now(ctx)
	if err != nil {
		return nil, err
	}
	before, after := now.Add(-f.Age).UnixMilli(), int64(-1)
	if f.After.TurnID != "" {
		after = f.After.OpenedAt.UnixMilli()
	}
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []memory.OpenTurn {
		return rows.List(q, "",
			func(t *openTurnRow) []any {
				return []any{&t.ThreadID, &t.TurnID, &t.Kind, &t.RunID, &t.opened, (*rows.IntBool)(&t.Settled)}
			},
			func(t *openTurnRow) memory.OpenTurn {
				t.OpenedAt = rows.Stamp(t.opened)
				return t.OpenTurn
			},
			`SELECT n.thread_id, n.id, t.kind, n.run_id, n.opened_at, CASE WHEN EXISTS (SELECT 1 FROM asks a WHERE`+unreacted+` AND a.settled_at <= ?) THEN 1 ELSE 0 END`+
				` FROM turns n JOIN threads t ON t.id = n.thread_id WHERE n.state = 'open' AND n.opened_at <= ? AND n.opened_at >= ? AND (n.opened_at > ? OR n.id > ?) ORDER BY n.opened_at, n.id LIMIT ?`,
			before, before, after, after, f.After.TurnID, limitOf(f.Limit))
	})
}

// Load counts what is under way. Each count reads an index of just that.
func (s *Store) Load(ctx context.Context) (memory.Load, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) (load memory.Load) {
		q.One(`SELECT (SELECT COUNT(*) FROM turns WHERE state = 'open'), (SELECT COUNT(*) FROM inbox WHERE state = 'waiting' AND quiet = 0),`+
			` (SELECT COUNT(*) FROM asks WHERE outcome = '' AND kind = 'approval'), (SELECT COUNT(*) FROM asks WHERE outcome = '' AND kind = 'question')`).
			Into(&load.OpenTurns, &load.Waiting, &load.Approvals, &load.Questions)
		return load
	})
}

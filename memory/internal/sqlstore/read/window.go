package read

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Readings of a part of a thread: they cost what they return, however long the
// thread is.

// place is where a call stands among the calls of its thread.
type place struct {
	turn      int64
	step, idx int
}

func (p *place) targets() []any { return []any{&p.turn, &p.step, &p.idx} }

func (p *place) compare(o *place) int {
	return cmp.Or(cmp.Compare(p.turn, o.turn), cmp.Compare(p.step, o.step), cmp.Compare(p.idx, o.idx))
}

// batchSizes are the lengths of lists in statements: few, as each is prepared.
var batchSizes = []int{1, 8, 64}

// batches runs f for all ids, some at a time, with a list of placeholders for them.
// The last one is repeated where there are fewer than places.
func batches(ids []string, f func(in string, args []any) error) error {
	for len(ids) > 0 {
		size := batchSizes[len(batchSizes)-1]
		for _, n := range batchSizes {
			if n >= len(ids) {
				size = n
				break
			}
		}
		part := ids[:min(size, len(ids))]
		ids = ids[len(part):]
		args := make([]any, size)
		for i := range args {
			args[i] = part[min(i, len(part)-1)]
		}
		if err := f("(?"+strings.Repeat(",?", size-1)+")", args); err != nil {
			return err
		}
	}
	return nil
}

// placedCall is a call with its place.
type placedCall struct {
	rows.Call
	place place
}

// ToolCallsOf lists the named calls of a thread in order.
func (s *Store) ToolCallsOf(ctx context.Context, threadID string, callIDs []string) (calls []agent.ToolCall, err error) {
	const query = `SELECT ` + rows.CallColumns + `, COALESCE((SELECT n FROM turns WHERE turns.id = tool_calls.turn_id), 0), step, idx FROM tool_calls WHERE thread_id = ? AND id IN `
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		var found []*placedCall
		err := batches(callIDs, func(in string, args []any) error {
			part, err := rows.Find(q, func(c *placedCall) []any { return append(c.Call.Targets(), c.place.targets()...) }, nil, query+in, append([]any{threadID}, args...)...)
			found = append(found, part...)
			return err
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b *placedCall) int { return a.place.compare(&b.place) })
		calls, err = views(found, func(c *placedCall) (agent.ToolCall, error) { return viewCall(&c.Call) })
		return err
	})
	return calls, err
}

// TasksOf lists the records of work of the named calls of a thread in order.
func (s *Store) TasksOf(ctx context.Context, threadID string, callIDs []string) (tasks []agent.Task, err error) {
	ids := make([]string, len(callIDs))
	for i, id := range callIDs {
		ids[i] = agent.TaskID(id)
	}
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		var found []*taskRow
		err := batches(ids, func(in string, args []any) error {
			part, err := rows.Find(q, (*taskRow).targets, nil, selectTask+` WHERE k.thread_id = ? AND k.id IN `+in, append([]any{threadID}, args...)...)
			found = append(found, part...)
			return err
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b *taskRow) int {
			return cmp.Or(a.place.compare(&b.place), cmp.Compare(a.created, b.created), cmp.Compare(a.ID, b.ID))
		})
		tasks, err = views(found, viewTask)
		return err
	})
	return tasks, err
}

func views[R, V any](found []*R, view func(*R) (V, error)) ([]V, error) {
	out := make([]V, 0, len(found))
	for _, r := range found {
		v, err := view(r)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// openCalls are those of the step that is not saved, and those of sub-agents that
// work or were not begun.
const openCalls = `SELECT c.id FROM threads t JOIN turns n ON n.id = t.open_turn JOIN tool_calls c ON c.turn_id = n.id AND c.step > n.saved WHERE t.id = ?` +
	` UNION SELECT delegator_call FROM turns WHERE delegator_thread = ? AND delegator_thread <> '' AND state = 'open' AND delegator_call <> ''` +
	` UNION SELECT call_id FROM inbox WHERE delegator_thread = ? AND state = 'waiting' AND kind = 'assign' AND call_id <> ''`

// OpenCalls names the calls of which something is still to come.
func (s *Store) OpenCalls(ctx context.Context, threadID string) (ids []string, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		ids, err = rows.List(q, threadID, func(id *string) []any { return []any{id} }, func(id *string) (string, error) { return *id, nil }, openCalls, threadID, threadID, threadID)
		return err
	})
	return ids, err
}

// Stopping names those of some turns that are closed, or whose cancel is requested.
func (s *Store) Stopping(ctx context.Context, turnIDs []string) (closed, cancelled []string, err error) {
	type turn struct{ id, state string }
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		closed, cancelled = nil, nil
		return batches(turnIDs, func(in string, args []any) error {
			found, err := rows.Find(q, func(t *turn) []any { return []any{&t.id, &t.state} }, nil,
				`SELECT id, state FROM turns WHERE id IN `+in+` AND (state <> 'open' OR cancel_at > 0)`, args...)
			for _, t := range found {
				if t.state == string(memory.TurnOpen) {
					cancelled = append(cancelled, t.id)
				} else {
					closed = append(closed, t.id)
				}
			}
			return err
		})
	})
	return closed, cancelled, err
}

type markRow struct {
	memory.Mark
	state string
}

// Mark says where threads stand.
func (s *Store) Mark(ctx context.Context, threadIDs []string) (marks []memory.Mark, err error) {
	const query = `SELECT t.id, t.last_event, t.waiting, t.open_turn, COALESCE(s.step, 0), COALESCE(s.attempt, 0), COALESCE(s.state, ''), COALESCE(s.text_len, 0), COALESCE(s.reasoning_len, 0),` +
		` (SELECT COUNT(*) FROM asks a WHERE a.root_id = t.root_id AND a.outcome = '')` +
		` FROM threads t LEFT JOIN turns n ON t.open_turn <> '' AND n.id = t.open_turn LEFT JOIN steps s ON s.turn_id = n.id AND s.step = n.saved + 1 WHERE t.id IN `
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		marks = make([]memory.Mark, 0, len(threadIDs))
		return batches(threadIDs, func(in string, args []any) error {
			found, err := rows.Find(q, func(m *markRow) []any {
				return []any{&m.ThreadID, &m.LastEvent, &m.Waiting, &m.TurnID, &m.Step, &m.Attempt, &m.state, &m.Text, &m.Reasoning, &m.Asks}
			}, func(m *markRow) error {
				m.Idle, m.Stored = m.Waiting == 0 && m.TurnID == "", m.state == rows.StepStored
				return nil
			}, query+in, args...)
			for _, m := range found {
				marks = append(marks, m.Mark)
			}
			return err
		})
	})
	return marks, err
}

func viewEntry(e *rows.Entry) (memory.InboxEntry, error) {
	err := e.Loaded()
	return e.InboxEntry, err
}

func (s *Store) entries(ctx context.Context, threadID, where string, args ...any) (entries []memory.InboxEntry, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		entries, err = rows.List(q, threadID, (*rows.Entry).Targets, viewEntry, rows.SelectEntry+` WHERE thread_id = ? `+where, append([]any{threadID}, args...)...)
		return err
	})
	return entries, err
}

// Inbox lists a thread's entries in order of arrival.
func (s *Store) Inbox(ctx context.Context, threadID string) ([]memory.InboxEntry, error) {
	return s.entries(ctx, threadID, `ORDER BY seq`)
}

// Waiting lists a thread's entries that wait, in order of arrival.
func (s *Store) Waiting(ctx context.Context, threadID string) ([]memory.InboxEntry, error) {
	return s.entries(ctx, threadID, `AND state = 'waiting' ORDER BY seq`)
}

// InboxBefore lists a thread's entries before one, the newest first.
func (s *Store) InboxBefore(ctx context.Context, threadID string, before int64, limit int) ([]memory.InboxEntry, error) {
	if before <= 0 {
		before = 1 << 62
	}
	return s.entries(ctx, threadID, `AND seq < ? ORDER BY seq DESC LIMIT ?`, before, limitOf(limit))
}

// LastTurn is a thread's newest turn, nil if it has had none.
func (s *Store) LastTurn(ctx context.Context, threadID string) (turn *memory.Turn, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		turns, err := rows.List(q, threadID, (*rows.Turn).Targets, viewTurn, rows.SelectTurn+` WHERE thread_id = ? ORDER BY n DESC LIMIT 1`, threadID)
		if len(turns) > 0 {
			turn = &turns[0]
		}
		return err
	})
	return turn, err
}

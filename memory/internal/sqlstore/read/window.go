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

// batches reads the rows of all ids, some at a time; query ends before the list of
// placeholders for them. The last id is repeated where there are fewer than places.
func batches[T any](q *rows.Reader, targets func(*T) []any, query string, ids []string, first ...any) (found []*T) {
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
		args := slices.Clone(first)
		for i := range size {
			args = append(args, part[min(i, len(part)-1)])
		}
		found = append(found, rows.Find(q, targets, nil, query+"(?"+strings.Repeat(",?", size-1)+")", args...)...)
	}
	return found
}

type placedCall struct {
	rows.Call
	place place
}

func (c *placedCall) targets() []any { return append(c.Call.Targets(), c.place.targets()...) }

// ToolCallsOf lists the named calls of a thread in order.
func (s *Store) ToolCallsOf(ctx context.Context, threadID string, callIDs []string) ([]agent.ToolCall, error) {
	const query = `SELECT ` + rows.CallColumns + `, COALESCE((SELECT n FROM turns WHERE turns.id = tool_calls.turn_id), 0), step, idx FROM tool_calls WHERE thread_id = ? AND id IN `
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []agent.ToolCall {
		found := batches(q, (*placedCall).targets, query, callIDs, threadID)
		slices.SortFunc(found, func(a, b *placedCall) int { return a.place.compare(&b.place) })
		return views(found, func(c *placedCall) agent.ToolCall { return viewCall(&c.Call) })
	})
}

// TasksOf lists the records of work of the named calls of a thread in order.
func (s *Store) TasksOf(ctx context.Context, threadID string, callIDs []string) ([]agent.Task, error) {
	ids := make([]string, len(callIDs))
	for i, id := range callIDs {
		ids[i] = agent.TaskID(id)
	}
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []agent.Task {
		found := batches(q, (*taskRow).targets, selectTask+` WHERE k.thread_id = ? AND k.id IN `, ids, threadID)
		slices.SortFunc(found, func(a, b *taskRow) int {
			return cmp.Or(a.place.compare(&b.place), cmp.Compare(a.created, b.created), cmp.Compare(a.ID, b.ID))
		})
		return views(found, viewTask)
	})
}

func views[R, V any](found []*R, view func(*R) V) []V {
	out := make([]V, len(found))
	for i, r := range found {
		out[i] = view(r)
	}
	return out
}

// openCalls are those of the step that is not saved, and those of sub-agents that
// work or were not begun.
const openCalls = `SELECT c.id FROM threads t JOIN turns n ON n.id = t.open_turn JOIN tool_calls c ON c.turn_id = n.id AND c.step > n.saved WHERE t.id = ?` +
	` UNION SELECT delegator_call FROM turns WHERE delegator_thread = ? AND delegator_thread <> '' AND state = 'open' AND delegator_call <> ''` +
	` UNION SELECT call_id FROM inbox WHERE delegator_thread = ? AND state = 'waiting' AND kind = 'assign' AND call_id <> ''`

// OpenCalls names the calls of which something is still to come.
func (s *Store) OpenCalls(ctx context.Context, threadID string) ([]string, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []string {
		q.Exists(threadID)
		return rows.Strings(q, openCalls, threadID, threadID, threadID)
	})
}

type turnState struct{ id, state string }

// Stopping names those of some turns that are closed, or whose cancel is requested.
func (s *Store) Stopping(ctx context.Context, turnIDs []string) (closed, cancelled []string, err error) {
	found, err := rows.Reading(ctx, s.rows, func(q *rows.Reader) []*turnState {
		return batches(q, func(t *turnState) []any { return []any{&t.id, &t.state} }, `SELECT id, state FROM turns WHERE (state <> 'open' OR cancel_at > 0) AND id IN `, turnIDs)
	})
	for _, t := range found {
		if t.state == string(memory.TurnOpen) {
			cancelled = append(cancelled, t.id)
		} else {
			closed = append(closed, t.id)
		}
	}
	return closed, cancelled, err
}

type markRow struct {
	memory.Mark
	state string
}

// Mark says where threads stand.
func (s *Store) Mark(ctx context.Context, threadIDs []string) ([]memory.Mark, error) {
	const query = `SELECT t.id, t.last_event, t.waiting, t.open_turn, COALESCE(s.step, 0), COALESCE(s.attempt, 0), COALESCE(s.state, ''), COALESCE(s.text_len, 0), COALESCE(s.reasoning_len, 0),` +
		` (SELECT COUNT(*) FROM asks a WHERE a.root_id = t.root_id AND a.outcome = '')` +
		` FROM threads t LEFT JOIN turns n ON t.open_turn <> '' AND n.id = t.open_turn LEFT JOIN steps s ON s.turn_id = n.id AND s.step = n.saved + 1 WHERE t.id IN `
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []memory.Mark {
		targets := func(m *markRow) []any {
			return []any{&m.ThreadID, &m.LastEvent, &m.Waiting, &m.TurnID, &m.Step, &m.Attempt, &m.state, &m.Text, &m.Reasoning, &m.Asks}
		}
		return views(batches(q, targets, query, threadIDs), func(m *markRow) memory.Mark {
			m.Idle, m.Stored = m.Waiting == 0 && m.TurnID == "", m.state == rows.StepStored
			return m.Mark
		})
	})
}

func viewEntry(e *rows.Entry) memory.InboxEntry {
	e.Loaded()
	return e.InboxEntry
}

func (s *Store) entries(ctx context.Context, threadID, where string, args ...any) ([]memory.InboxEntry, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []memory.InboxEntry {
		return rows.List(q, threadID, (*rows.Entry).Targets, viewEntry, rows.SelectEntry+` WHERE thread_id = ? `+where, append([]any{threadID}, args...)...)
	})
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
func (s *Store) LastTurn(ctx context.Context, threadID string) (*memory.Turn, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) *memory.Turn {
		turns := rows.List(q, threadID, (*rows.Turn).Targets, viewTurn, rows.SelectTurn+` WHERE thread_id = ? ORDER BY n DESC LIMIT 1`, threadID)
		if len(turns) == 0 {
			return nil
		}
		return &turns[0]
	})
}

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// rower is what units and readers have in common.
type rower interface {
	row(query string, args ...any) *sql.Row
	rows(query string, args ...any) (*sql.Rows, error)
}

// reader runs queries for reading.
type reader struct {
	ctx context.Context
	s   *Store
	q   Queryer
}

func (r *reader) row(query string, args ...any) *sql.Row {
	return r.q.QueryRowContext(r.ctx, r.s.sql.sql(query), args...)
}

func (r *reader) rows(query string, args ...any) (*sql.Rows, error) {
	return r.q.QueryContext(r.ctx, r.s.sql.sql(query), args...)
}

// exists reports a missing thread as CodeNotFound.
func (r *reader) exists(threadID string) error {
	var one int
	err := r.row(`SELECT 1 FROM threads WHERE id = ?`, threadID).Scan(&one)
	if noRows(err) {
		return noThread(threadID)
	}
	return err
}

// streamed joins the pieces of a step's text. A character cut off at the end of
// what arrived is left out as a replacement character.
func streamed(q rower, turnID string, step int) (text, reasoning string, err error) {
	rows, err := q.rows(`SELECT body, reasoning FROM chunks WHERE turn_id = ? AND step = ? ORDER BY n`, turnID, step)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = rows.Close() }()
	var body, thought strings.Builder
	for rows.Next() {
		var b, r []byte
		if err := rows.Scan(&b, &r); err != nil {
			return "", "", err
		}
		body.Write(b)
		thought.Write(r)
	}
	return clean(body.String()), clean(thought.String()), rows.Err()
}

// list runs a query and turns each row into a value. When there is none, a
// thread that does not exist is reported, not an empty list.
func list[R, V any](q *reader, threadID string, targets func(*R) []any, view func(*R) (V, error), query string, args ...any) ([]V, error) {
	rows, err := q.rows(query, args...)
	found, err := collect(rows, err, targets, func(*R) error { return nil })
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && threadID != "" {
		return nil, q.exists(threadID)
	}
	values := make([]V, 0, len(found))
	for _, f := range found {
		v, err := view(f)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// limitOf makes "no limit" a number.
func limitOf(n int) int64 {
	if n <= 0 {
		return 1 << 62
	}
	return int64(n)
}

func (r *reader) thread(t *threadRow) (agent.Thread, error) {
	t.loaded()
	c, err := r.s.config(r, t.configHash)
	t.Config = c
	return t.Thread, err
}

// listed is a thread in a list: one whose configuration cannot be read does not
// hide the others, and has none.
func (r *reader) listed(t *threadRow) (agent.Thread, error) {
	v, err := r.thread(t)
	if memory.IsDamaged(err) {
		v.Config, err = agent.SpecialistAgentConfig{Name: v.AgentType}, nil
	}
	return v, err
}

// Thread reads a thread; another user's is not found.
func (s *Store) Thread(ctx context.Context, userID, threadID string) (t agent.Thread, err error) {
	err = s.read(ctx, func(q *reader) error {
		row := &threadRow{}
		err := q.row(selectThread+` WHERE id = ?`, threadID).Scan(row.targets()...)
		if noRows(err) || err == nil && userID != "" && row.UserID != userID {
			return noThread(threadID)
		}
		if err != nil {
			return err
		}
		t, err = q.thread(row)
		return err
	})
	return t, err
}

// Threads lists threads, newest activity first.
func (s *Store) Threads(ctx context.Context, f memory.ThreadFilter) (threads []agent.Thread, err error) {
	where, args := []string{"1 = 1"}, []any{}
	add := func(use bool, condition string, value any) {
		if use {
			where, args = append(where, condition), append(args, value)
		}
	}
	add(f.UserID != "", "user_id = ?", f.UserID)
	add(f.Profile != "", "COALESCE(NULLIF(profile, ''), '"+memory.DefaultProfile+"') = ?", f.Profile) // as memory.InProfile
	add(f.SessionID != "", "session_id = ?", f.SessionID)
	add(!f.All && !f.SubAgents, "kind = ?", string(agent.KindMain))
	add(!f.Since.IsZero(), "kind IN ('main', 'subagent') AND updated_at >= ?", f.Since.UnixMilli()) // both, as the index is by kind
	add(f.SubAgents, "kind = ? AND NOT EXISTS (SELECT 1 FROM forgotten g WHERE g.thread_id = threads.id)", string(agent.KindSubAgent))
	add(f.Parent != "", "parent_id = ? AND parent_id <> ''", f.Parent)
	if f.Working {
		where = append(where, "(waiting > 0 OR NOT ("+ended+"))")
	}
	add(f.Root != "", "root_id = ?", f.Root)
	add(f.Workdir != "", "workdir = ?", f.Workdir)
	add(!f.Before.IsZero() && f.AfterID == "", "updated_at < ?", f.Before.UnixMilli())
	if f.AfterID != "" {
		where = append(where, "(updated_at < ? OR updated_at = ? AND id > ?)")
		args = append(args, f.Before.UnixMilli(), f.Before.UnixMilli(), f.AfterID)
	}
	query := selectThread + ` WHERE ` + strings.Join(where, " AND ") + ` ORDER BY updated_at DESC, id LIMIT ?`
	err = s.read(ctx, func(q *reader) error {
		threads, err = list(q, "", (*threadRow).targets, q.listed, query, append(args, limitOf(f.Limit))...)
		return err
	})
	return threads, err
}

// Children lists the direct sub-threads in order of creation.
func (s *Store) Children(ctx context.Context, threadID string) (threads []agent.Thread, err error) {
	err = s.read(ctx, func(q *reader) error {
		threads, err = list(q, threadID, (*threadRow).targets, q.listed,
			selectThread+` WHERE parent_id = ? AND parent_id <> '' ORDER BY `+orderOfCalls("threads.parent_call_id")+`, ordinal`, threadID)
		return err
	})
	return threads, err
}

type messageRow struct {
	body, supersededBy string
	id                 string
	seq                int64
}

// message is what people see of the row.
func (m *messageRow) message(threadID string) (v agent.Message, err error) {
	if err := json.Unmarshal([]byte(m.body), &v); err != nil {
		err := memory.Damaged(threadID, fmt.Sprintf("message %d", m.seq), err)
		var row *memory.RowError
		if errors.As(err, &row) {
			row.Seq = m.seq
		}
		return v, err
	}
	v.SupersededBy = m.supersededBy
	return v, nil
}

// Messages returns up to limit messages after a seq.
func (s *Store) Messages(ctx context.Context, threadID string, after int64, limit int) (messages []agent.Message, err error) {
	err = s.read(ctx, func(q *reader) error {
		messages, err = list(q, threadID,
			func(m *messageRow) []any { return []any{&m.seq, &m.body, &m.supersededBy} },
			func(m *messageRow) (agent.Message, error) { return m.message(threadID) },
			`SELECT seq, body, superseded_by FROM messages WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?`, threadID, after, limitOf(limit))
		return err
	})
	return messages, err
}

type eventRow struct {
	agent.Event
	data string
	at   int64
}

// Events returns up to limit events after a seq.
func (s *Store) Events(ctx context.Context, threadID string, after int64, limit int) (events []agent.Event, err error) {
	err = s.read(ctx, func(q *reader) error {
		events, err = list(q, threadID,
			func(e *eventRow) []any { return []any{&e.ThreadID, &e.Seq, &e.Type, &e.TurnID, &e.data, &e.at} },
			func(e *eventRow) (agent.Event, error) {
				e.Data, e.At = []byte(e.data), stamp(e.at)
				if !json.Valid(e.Data) {
					return e.Event, memory.Damaged(threadID, fmt.Sprintf("event %d (%s)", e.Seq, e.Type), errors.New("it is not JSON"))
				}
				return e.Event, nil
			},
			`SELECT thread_id, seq, type, turn_id, data, at FROM events WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?`,
			threadID, after, limitOf(limit))
		return err
	})
	return events, err
}

// Stream returns what the current model call of a thread has streamed, or nil.
func (s *Store) Stream(ctx context.Context, threadID string) (stream *memory.Streamed, err error) {
	err = s.read(ctx, func(q *reader) error {
		stream = nil
		var text, reasoning int
		var state, reply string
		v := memory.Streamed{}
		err := q.row(`SELECT s.turn_id, s.step, s.attempt, s.state, s.reply, s.text_len, s.reasoning_len FROM threads t`+
			` JOIN turns n ON n.id = t.open_turn JOIN steps s ON s.turn_id = n.id AND s.step = n.saved + 1 WHERE t.id = ?`, threadID).
			Scan(&v.TurnID, &v.Step, &v.Attempt, &state, &reply, &text, &reasoning)
		if noRows(err) {
			return q.exists(threadID)
		}
		if err != nil {
			return err
		}
		v.MessageID = agent.MessageID(v.TurnID, v.Step)
		if state == stepStored {
			var r agent.ModelReply
			err = decode(reply, &r)
			v.Text, v.Reasoning, v.Stored = r.Content, r.Reasoning, true
		} else if text+reasoning > 0 {
			v.Text, v.Reasoning, err = streamed(q, v.TurnID, v.Step)
		}
		stream = &v
		return err
	})
	return stream, err
}

// orderOfCalls sorts what calls made in the order of those calls: what one reply
// makes is made at the same time, in any order.
func orderOfCalls(callID string) string {
	return `COALESCE((SELECT n.n FROM tool_calls c JOIN turns n ON n.id = c.turn_id WHERE c.id = ` + callID + `), 0),` +
		` COALESCE((SELECT c.step FROM tool_calls c WHERE c.id = ` + callID + `), 0),` +
		` COALESCE((SELECT c.idx FROM tool_calls c WHERE c.id = ` + callID + `), 0)`
}

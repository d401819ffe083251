package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// limitOf makes "no limit" a number.
func limitOf(n int) int64 {
	if n <= 0 {
		return 1 << 62
	}
	return int64(n)
}

// Thread reads a thread; another user's is not found.
func (s *Store) Thread(ctx context.Context, userID, threadID string) (t agent.Thread, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		row := &rows.Thread{}
		err := q.Row(rows.SelectThread+` WHERE id = ?`, threadID).Scan(row.Targets()...)
		if rows.NoRows(err) || err == nil && userID != "" && row.UserID != userID {
			return rows.NoThread(threadID)
		}
		if err != nil {
			return err
		}
		t, err = q.Thread(row)
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
	add(f.Prefix != "", fmt.Sprintf("substr(id, 1, %d) = ?", utf8.RuneCountInString(f.Prefix)), f.Prefix)
	add(f.Status != "", "status = ?", string(f.Status))
	add(!f.All && !f.SubAgents, "kind = ?", string(agent.KindMain))
	add(!f.Since.IsZero(), "kind IN ('main', 'subagent') AND updated_at >= ?", f.Since.UnixMilli()) // both, as the index is by kind
	add(f.SubAgents, "kind = ? AND NOT EXISTS (SELECT 1 FROM forgotten g WHERE g.thread_id = threads.id)", string(agent.KindSubAgent))
	add(f.Parent != "", "parent_id = ? AND parent_id <> ''", f.Parent)
	if f.Working {
		where = append(where, "(waiting > 0 OR NOT ("+rows.Ended+"))")
	}
	add(f.Root != "", "root_id = ?", f.Root)
	add(f.Workdir != "", "workdir = ?", f.Workdir)
	add(!f.Before.IsZero() && f.AfterID == "", "updated_at < ?", f.Before.UnixMilli())
	if f.AfterID != "" {
		where = append(where, "(updated_at < ? OR updated_at = ? AND id > ?)")
		args = append(args, f.Before.UnixMilli(), f.Before.UnixMilli(), f.AfterID)
	}
	query := rows.SelectThread + ` WHERE ` + strings.Join(where, " AND ") + ` ORDER BY updated_at DESC, id LIMIT ?`
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		threads, err = rows.List(q, "", (*rows.Thread).Targets, q.Listed, query, append(args, limitOf(f.Limit))...)
		return err
	})
	return threads, err
}

// Children lists the direct sub-threads in order of creation.
func (s *Store) Children(ctx context.Context, threadID string) (threads []agent.Thread, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		threads, err = rows.List(q, threadID, (*rows.Thread).Targets, q.Listed,
			rows.SelectThread+` WHERE parent_id = ? AND parent_id <> '' ORDER BY `+orderOfCalls("threads.parent_call_id")+`, ordinal`, threadID)
		return err
	})
	return threads, err
}

// Messages returns up to limit messages after a seq.
func (s *Store) Messages(ctx context.Context, threadID string, after int64, limit int) (messages []agent.Message, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		messages, err = rows.List(q, threadID,
			func(m *rows.Message) []any { return []any{&m.Seq, &m.Body, &m.SupersededBy} },
			func(m *rows.Message) (agent.Message, error) { return m.Message(threadID) },
			`SELECT seq, body, superseded_by FROM messages WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?`, threadID, after, limitOf(limit))
		return err
	})
	return messages, err
}

// Events returns up to limit events after a seq.
func (s *Store) Events(ctx context.Context, threadID string, after int64, limit int) (events []agent.Event, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		events, err = rows.List(q, threadID,
			func(e *rows.Event) []any { return []any{&e.ThreadID, &e.Seq, &e.Type, &e.TurnID, &e.DataText, &e.AtMs} },
			func(e *rows.Event) (agent.Event, error) {
				e.Data, e.At = []byte(e.DataText), rows.Stamp(e.AtMs)
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
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		stream = nil
		var text, reasoning int
		var state, reply string
		v := memory.Streamed{}
		err := q.Row(`SELECT s.turn_id, s.step, s.attempt, s.state, s.reply, s.text_len, s.reasoning_len FROM threads t`+
			` JOIN turns n ON n.id = t.open_turn JOIN steps s ON s.turn_id = n.id AND s.step = n.saved + 1 WHERE t.id = ?`, threadID).
			Scan(&v.TurnID, &v.Step, &v.Attempt, &state, &reply, &text, &reasoning)
		if rows.NoRows(err) {
			return q.Exists(threadID)
		}
		if err != nil {
			return err
		}
		v.MessageID = agent.MessageID(v.TurnID, v.Step)
		if state == rows.StepStored {
			var r agent.ModelReply
			err = rows.Decode(reply, &r)
			v.Text, v.Reasoning, v.Stored = r.Content, r.Reasoning, true
		} else if text+reasoning > 0 {
			v.Text, v.Reasoning, err = rows.Streamed(q, v.TurnID, v.Step)
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

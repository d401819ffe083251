// Package read is the reading side of the store.
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
func (s *Store) Thread(ctx context.Context, userID, threadID string) (agent.Thread, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) agent.Thread {
		row := &rows.Thread{}
		if !q.One(rows.SelectThread+` WHERE id = ?`, threadID).Into(row.Targets()...) || userID != "" && row.UserID != userID {
			rows.Check(rows.NoThread(threadID))
		}
		return q.Thread(row)
	})
}

// Threads lists threads, newest activity first.
func (s *Store) Threads(ctx context.Context, f memory.ThreadFilter) ([]agent.Thread, error) {
	where, args := []string{"1 = 1"}, []any{}
	add := func(use bool, condition string, value any) {
		if use {
			where, args = append(where, condition), append(args, value)
		}
	}
	add(f.UserID != "", "user_id = ?", f.UserID)
	add(f.Profile != "", "COALESCE(NULLIF(profile, ''), '"+memory.DefaultProfile+"') = ?", f.Profile) // as memory.InProfile
	add(f.SessionID != "", "session_id = ?", f.SessionID)
	if n := utf8.RuneCountInString(f.Prefix); n > 0 { // also that of an agent, its digest, or its call
		where = append(where, fmt.Sprintf("? IN (substr(id, 1, %d), substr(agent_id, 1, %[1]d), substr(agent_id, length(agent_id) - 11, %[1]d), substr(parent_call_id, 1, %[1]d))", n))
		args = append(args, f.Prefix)
	}
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
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []agent.Thread {
		return rows.List(q, "", (*rows.Thread).Targets, q.Listed, query, append(args, limitOf(f.Limit))...)
	})
}

// Children lists the direct sub-threads in order of creation.
func (s *Store) Children(ctx context.Context, threadID string) ([]agent.Thread, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []agent.Thread {
		return rows.List(q, threadID, (*rows.Thread).Targets, q.Listed,
			rows.SelectThread+` WHERE parent_id = ? AND parent_id <> '' ORDER BY `+orderOfCalls("threads.parent_call_id")+`, ordinal`, threadID)
	})
}

// Messages returns up to limit messages after a seq.
func (s *Store) Messages(ctx context.Context, threadID string, after int64, limit int) ([]agent.Message, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []agent.Message {
		return rows.List(q, threadID, (*rows.Message).Targets, func(m *rows.Message) agent.Message { return m.Message(threadID) },
			rows.SelectMessage+` WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?`, threadID, after, limitOf(limit))
	})
}

// Events returns up to limit events after a seq.
func (s *Store) Events(ctx context.Context, threadID string, after int64, limit int) ([]agent.Event, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []agent.Event {
		return rows.List(q, threadID, (*rows.Event).Targets, func(e *rows.Event) agent.Event {
			e.Data, e.At = []byte(e.DataText), rows.Stamp(e.AtMs)
			if !json.Valid(e.Data) {
				rows.Check(memory.Damaged(threadID, fmt.Sprintf("event %d (%s)", e.Seq, e.Type), errors.New("it is not JSON")))
			}
			return e.Event
		}, rows.SelectEvent+` WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?`, threadID, after, limitOf(limit))
	})
}

// Stream returns what the current model call of a thread has streamed, or nil.
func (s *Store) Stream(ctx context.Context, threadID string) (*memory.Streamed, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) *memory.Streamed {
		var text, reasoning int
		var state, reply string
		v := memory.Streamed{}
		there := q.One(`SELECT s.turn_id, s.step, s.attempt, s.state, s.reply, s.text_len, s.reasoning_len FROM threads t`+
			` JOIN turns n ON n.id = t.open_turn JOIN steps s ON s.turn_id = n.id AND s.step = n.saved + 1 WHERE t.id = ?`, threadID).
			Into(&v.TurnID, &v.Step, &v.Attempt, &state, &reply, &text, &reasoning)
		if !there {
			q.Exists(threadID)
			return nil
		}
		v.MessageID = agent.MessageID(v.TurnID, v.Step)
		if state == rows.StepStored {
			var r agent.ModelReply
			rows.Check(rows.Decode(reply, &r))
			v.Text, v.Reasoning, v.Stored = r.Content, r.Reasoning, true
		} else if text+reasoning > 0 {
			v.Text, v.Reasoning = rows.Streamed(q, v.TurnID, v.Step)
		}
		return &v
	})
}

// orderOfCalls sorts what calls made in the order of those calls: what one reply
// makes is made at the same time, in any order.
func orderOfCalls(callID string) string {
	return `COALESCE((SELECT n.n FROM tool_calls c JOIN turns n ON n.id = c.turn_id WHERE c.id = ` + callID + `), 0),` +
		` COALESCE((SELECT c.step FROM tool_calls c WHERE c.id = ` + callID + `), 0),` +
		` COALESCE((SELECT c.idx FROM tool_calls c WHERE c.id = ` + callID + `), 0)`
}

// Store is the reading side of the store.
type Store struct{ rows *rows.Store }

// New puts this floor on the rows of a store.
func New(s *rows.Store) *Store { return &Store{rows: s} }

// Spent reads what the agents of a tree have used since the last message of a person.
func (s *Store) Spent(ctx context.Context, rootThreadID string) (memory.Spent, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) memory.Spent {
		q.Exists(rootThreadID)
		return rows.Spent(q, rootThreadID)
	})
}

// Summaries lists a thread's stored summaries in the order they were made.
func (s *Store) Summaries(ctx context.Context, threadID string) ([]memory.Summary, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []memory.Summary {
		return rows.List(q, threadID, (*rows.Summary).Targets, rows.ViewSummary,
			rows.SelectSummary+` WHERE thread_id = ? AND state = 'stored' ORDER BY last_seq, to_seq, created_at, cause`, threadID)
	})
}

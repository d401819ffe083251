package audit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// repairs is a repair of one thread under way, with its rows. Everything is
// loaded once: looking things up in the database row by row is slow on long threads.
type repairs struct {
	*unit
	t     *rows.Thread
	found []memory.Finding

	messageList []*storedMessage
	eventList   []*rows.Event
	turnList    []*rows.Turn
	callList    []*rows.Call

	// incomplete means that rows are lost or cannot be read: then no number is
	// counted anew.
	incomplete bool
}

// did notes what was mended.
func (r *repairs) did(format string, args ...any) {
	r.found = append(r.found, memory.Finding{Kind: memory.FoundWrong, Detail: fmt.Sprintf(format, args...), Mendable: true})
}

// left notes what cannot be mended.
func (r *repairs) left(kind memory.FindingKind, format string, args ...any) {
	r.found = append(r.found, memory.Finding{Kind: kind, Detail: fmt.Sprintf(format, args...)})
	r.incomplete = r.incomplete || kind != memory.FoundWrong
}

// Repair counts a thread's numbers anew and puts missing results back.
func (s *Store) Repair(ctx context.Context, threadID string) (done []string, err error) {
	err = s.write(ctx, "repair", func(u *unit) error {
		r, err := u.repair(threadID)
		if err != nil {
			return err
		}
		done = nil
		for _, f := range r.found {
			if f.Mendable {
				done = append(done, f.Detail)
			}
		}
		return nil
	})
	return done, err
}

// Audit is a repair that is not committed.
func (s *Store) Audit(ctx context.Context, threadID string) (found []memory.Finding, err error) {
	err = s.look(ctx, func(u *unit) error {
		r, err := u.repair(threadID)
		if err == nil {
			found = r.found
		}
		return err
	})
	return found, err
}

func (u *unit) repair(threadID string) (*repairs, error) {
	t, err := u.Thread(threadID)
	if err != nil {
		return nil, err
	}
	r := &repairs{unit: u, t: t}
	for _, step := range []func() error{r.load, r.results, r.lost, r.counters} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// results puts missing results (FAULTS B3) back where they stood: behind the
// message with the calls, in their order.
func (r *repairs) results() error {
	if r.incomplete {
		return nil
	}
	taken := map[int64]bool{}
	for _, m := range r.messageList {
		taken[m.Seq] = true
	}
	calls := map[string]*rows.Call{}
	for _, c := range r.callList {
		calls[c.ID] = c
	}
	for _, m := range r.messageList {
		for i, call := range m.m.ToolCalls {
			seq := m.Seq + 1 + int64(i)
			if taken[seq] {
				continue // another message in its place is told by rule 3
			}
			result := agent.Message{
				ID: agent.ToolMessageID(call.ID), Role: agent.RoleTool, ToolCallID: call.ID, Name: call.Function.Name, TurnID: m.m.TurnID, Seq: seq,
				Content: agent.Text(agent.TextUnknown), Status: agent.CallUnknown, ErrorReason: agent.ErrUnknown, Timestamp: m.m.Timestamp,
			}
			if c := calls[call.ID]; c != nil && c.Status.Final() {
				result.Content, result.Status, result.ErrorReason = agent.Text(c.Result), c.Status, c.ErrorReason
			}
			body, err := rows.Encode(result)
			if err != nil {
				return err
			}
			if err := r.Exec(rows.InsertMessage, r.t.ID, seq, result.ID, body); err != nil {
				return err
			}
			r.messageList = append(r.messageList, &storedMessage{Message: rows.Message{Seq: seq, ID: result.ID, Body: body}, m: result})
			r.did("call %s has its result in the conversation again", call.ID)
		}
	}
	slices.SortFunc(r.messageList, func(a, b *storedMessage) int { return int(a.Seq - b.Seq) })
	return nil
}

// counters makes the numbers in the thread row those of its rows.
func (r *repairs) counters() error {
	if r.incomplete {
		return nil
	}
	t := r.t
	for _, c := range []struct {
		name  string
		have  *int64
		query string
		least bool // rows may have moved to other threads
	}{
		{"last event", &t.LastEvent, `SELECT COALESCE(MAX(seq), 0) FROM events WHERE thread_id = ?`, true},
		{"last message", &t.LastMessage, `SELECT COALESCE(MAX(seq), 0) FROM messages WHERE thread_id = ?`, false},
		{"messageCount", &t.MessageCount, `SELECT COUNT(*) FROM messages WHERE thread_id = ?`, false},
		{"last inbox entry", &t.LastEntry, `SELECT COALESCE(MAX(seq), 0) FROM inbox WHERE thread_id = ?`, true},
		{"last turn", &t.LastTurn, `SELECT COALESCE(MAX(n), 0) FROM turns WHERE thread_id = ?`, false},
		{"last child", &t.LastChild, `SELECT COALESCE(MAX(ordinal), 0) FROM threads WHERE parent_id = ? AND parent_id <> ''`, true},
		{"waiting", &t.Waiting, `SELECT COUNT(*) FROM inbox WHERE state = 'waiting' AND quiet = 0 AND thread_id = ?`, false},
		{"toolCallCount", &t.ToolCallCount, `SELECT COUNT(*) FROM tool_calls WHERE thread_id = ?`, false},
		{"promptTokens", &t.PromptTokens, `SELECT COALESCE(SUM(prompt_tokens), 0) FROM turns WHERE thread_id = ?`, false},
		{"completionTokens", &t.CompletionTokens, `SELECT COALESCE(SUM(completion_tokens), 0) FROM turns WHERE thread_id = ?`, false},
		{"totalTokens", &t.TotalTokens, `SELECT COALESCE(SUM(total_tokens), 0) FROM turns WHERE thread_id = ?`, false},
		{"requestCount", &t.RequestCount, `SELECT COALESCE(SUM(requests), 0) FROM turns WHERE thread_id = ?`, false},
		{"totalTimeMs", &t.TotalTimeMs, `SELECT COALESCE(SUM(closed_at - opened_at), 0) FROM turns WHERE state = 'closed' AND thread_id = ?`, false},
	} {
		var want int64
		if err := r.Row(c.query, t.ID).Scan(&want); err != nil {
			return err
		}
		if *c.have != want && (!c.least || *c.have < want) {
			r.did("%s is %d, as its rows say, not %d", c.name, want, *c.have)
			*c.have, t.Dirty = want, true
		}
	}
	var price float64
	if err := r.Row(`SELECT COALESCE(SUM(price), 0) FROM turns WHERE thread_id = ?`, t.ID).Scan(&price); err != nil {
		return err
	}
	// Sums of the same prices in another order differ by their last digits.
	if math.Abs(price-t.TotalPrice) > 1e-9*max(1, math.Abs(price)) {
		r.did("totalPrice is %g, as its rows say, not %g", price, t.TotalPrice)
		t.TotalPrice, t.Dirty = price, true
	}
	return nil
}

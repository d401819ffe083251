package read

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

type taskRow struct {
	agent.Task
	created, updated int64
	args             string // of the call that made it
	place            place
}

const (
	selectTask = `SELECT k.id, t.user_id, t.root_id, k.thread_id, k.type, k.name, k.instruction, k.sub_agent, k.status, k.result, k.error,` +
		` k.trigger_id, k.created_at, k.updated_at, COALESCE(c.args, ''), COALESCE(n.n, 0), COALESCE(c.step, 0), COALESCE(c.idx, 0)` +
		` FROM tasks k JOIN threads t ON t.id = k.thread_id` +
		` LEFT JOIN tool_calls c ON c.id = 'call_' || SUBSTR(k.id, 6) LEFT JOIN turns n ON n.id = c.turn_id`
	orderOfTasks = ` ORDER BY COALESCE(n.n, 0), COALESCE(c.step, 0), COALESCE(c.idx, 0), k.created_at, k.id`
)

func (t *taskRow) targets() []any {
	return append([]any{
		&t.ID, &t.UserID, &t.ChatID, &t.ThreadID, &t.Type, &t.Name, &t.Instruction, &t.SubAgentID, &t.Status,
		&t.Result, &t.Error, &t.TriggerMessageID, &t.created, &t.updated, &t.args,
	}, t.place.targets()...)
}

func viewTask(t *taskRow) agent.Task {
	t.CreatedAt, t.UpdatedAt = rows.Stamp(t.created), rows.Stamp(t.updated)
	if t.Type == "agent" {
		p, _ := agent.ParseAssignParams(json.RawMessage(t.args)) // those of a refused call have no task
		t.Description = rows.Clean(p.Description)
	}
	return t.Task
}

// Tasks lists a thread's records of work in order of creation.
func (s *Store) Tasks(ctx context.Context, threadID string) ([]agent.Task, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []agent.Task {
		return rows.List(q, threadID, (*taskRow).targets, viewTask, selectTask+` WHERE k.thread_id = ?`+orderOfTasks, threadID)
	})
}

func viewCall(c *rows.Call) agent.ToolCall {
	c.Loaded()
	return c.View()
}

// ToolCalls lists a thread's calls in order.
func (s *Store) ToolCalls(ctx context.Context, threadID string) ([]agent.ToolCall, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []agent.ToolCall {
		return rows.List(q, threadID, (*rows.Call).Targets, viewCall,
			rows.SelectCall+` WHERE thread_id = ? ORDER BY (SELECT n FROM turns WHERE turns.id = tool_calls.turn_id), step, idx`, threadID)
	})
}

// ToolCall reads one call.
func (s *Store) ToolCall(ctx context.Context, callID string) (agent.ToolCall, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) agent.ToolCall {
		var c rows.Call
		if !q.One(rows.SelectCall+` WHERE id = ?`, callID).Into(c.Targets()...) {
			rows.Refuse(agent.CodeNotFound, "tool call %q does not exist", callID)
		}
		return viewCall(&c)
	})
}

// ToolOutput is the whole output of a call, also where the model read a part of it.
func (s *Store) ToolOutput(ctx context.Context, callID string) (string, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) (output string) {
		if !q.One(`SELECT COALESCE(o.body, c.result) FROM tool_calls c LEFT JOIN outputs o ON o.call_id = c.id WHERE c.id = ?`, callID).Into(&output) {
			rows.Refuse(agent.CodeNotFound, "tool call %q does not exist", callID)
		}
		parts := []string{output}
		for _, p := range rows.Find(q, func(p *string) []any { return []any{p} }, nil, `SELECT body FROM output_parts WHERE call_id = ? ORDER BY n`, callID) {
			parts = append(parts, *p)
		}
		return strings.Join(parts, "")
	})
}

func viewTurn(t *rows.Turn) memory.Turn {
	t.Loaded()
	return t.Turn
}

// TurnsOf lists a thread's turns in order.
func (s *Store) TurnsOf(ctx context.Context, threadID string) ([]memory.Turn, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []memory.Turn {
		return rows.List(q, threadID, (*rows.Turn).Targets, viewTurn, rows.SelectTurn+` WHERE thread_id = ? ORDER BY n`, threadID)
	})
}

// Turn reads one turn.
func (s *Store) Turn(ctx context.Context, turnID string) (memory.Turn, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) memory.Turn {
		var t rows.Turn
		if !q.One(rows.SelectTurn+` WHERE id = ?`, turnID).Into(t.Targets()...) {
			noTurn(turnID)
		}
		return viewTurn(&t)
	})
}

func noTurn(id string) { rows.Refuse(agent.CodeNotFound, "turn %q does not exist", id) }

// Entry reads one entry of an inbox.
func (s *Store) Entry(ctx context.Context, threadID string, kind memory.EntryKind, id string) (memory.InboxEntry, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) memory.InboxEntry {
		var e rows.Entry
		if !q.One(rows.SelectEntry+` WHERE thread_id = ? AND kind = ? AND id = ?`, threadID, string(kind), id).Into(e.Targets()...) {
			rows.Refuse(agent.CodeNotFound, "thread %q has no inbox entry %s %q", threadID, kind, id)
		}
		return viewEntry(&e)
	})
}

// Steps lists the step records of a turn.
func (s *Store) Steps(ctx context.Context, turnID string) ([]memory.Step, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []memory.Step {
		steps := rows.List(q, "", (*rows.Step).Targets, func(r *rows.Step) memory.Step {
			if r.Loaded(); r.Stored {
				r.FinishReason = r.ModelReply().FinishReason
			}
			return r.Step
		}, rows.SelectStep+` WHERE turn_id = ? ORDER BY step`, turnID)
		if len(steps) == 0 && !q.One(`SELECT 1 FROM turns WHERE id = ?`, turnID).Into(new(int)) {
			noTurn(turnID)
		}
		return steps
	})
}

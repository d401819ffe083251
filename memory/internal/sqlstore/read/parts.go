package read

import (
	"context"
	"encoding/json"

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

func viewTask(t *taskRow) (agent.Task, error) {
	t.CreatedAt, t.UpdatedAt = rows.Stamp(t.created), rows.Stamp(t.updated)
	if t.Type == "agent" {
		p, _ := agent.ParseAssignParams(json.RawMessage(t.args)) // those of a refused call have no task
		t.Description = rows.Clean(p.Description)
	}
	return t.Task, nil
}

// Tasks lists a thread's records of work in order of creation.
func (s *Store) Tasks(ctx context.Context, threadID string) (tasks []agent.Task, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		tasks, err = rows.List(q, threadID, (*taskRow).targets, viewTask, selectTask+` WHERE k.thread_id = ?`+orderOfTasks, threadID)
		return err
	})
	return tasks, err
}

func viewCall(c *rows.Call) (agent.ToolCall, error) {
	err := c.Loaded()
	return c.View(), err
}

// ToolCalls lists a thread's calls in order.
func (s *Store) ToolCalls(ctx context.Context, threadID string) (calls []agent.ToolCall, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		calls, err = rows.List(q, threadID, (*rows.Call).Targets, viewCall,
			rows.SelectCall+` WHERE thread_id = ? ORDER BY (SELECT n FROM turns WHERE turns.id = tool_calls.turn_id), step, idx`, threadID)
		return err
	})
	return calls, err
}

// ToolCall reads one call.
func (s *Store) ToolCall(ctx context.Context, callID string) (call agent.ToolCall, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		calls, err := rows.List(q, "", (*rows.Call).Targets, viewCall, rows.SelectCall+` WHERE id = ?`, callID)
		if err == nil && len(calls) == 0 {
			return agent.Errorf(agent.CodeNotFound, "tool call %q does not exist", callID)
		}
		if err == nil {
			call = calls[0]
		}
		return err
	})
	return call, err
}

// ToolOutput is the whole output of a call, also where the model read a part of it.
func (s *Store) ToolOutput(ctx context.Context, callID string) (output string, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		err := q.Row(`SELECT COALESCE(o.body, c.result) FROM tool_calls c LEFT JOIN outputs o ON o.call_id = c.id WHERE c.id = ?`, callID).Scan(&output)
		if rows.NoRows(err) {
			return agent.Errorf(agent.CodeNotFound, "tool call %q does not exist", callID)
		}
		return err
	})
	return output, err
}

func viewTurn(t *rows.Turn) (memory.Turn, error) {
	t.Loaded()
	return t.Turn, nil
}

// TurnsOf lists a thread's turns in order.
func (s *Store) TurnsOf(ctx context.Context, threadID string) (turns []memory.Turn, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		turns, err = rows.List(q, threadID, (*rows.Turn).Targets, viewTurn, rows.SelectTurn+` WHERE thread_id = ? ORDER BY n`, threadID)
		return err
	})
	return turns, err
}

// Turn reads one turn.
func (s *Store) Turn(ctx context.Context, turnID string) (turn memory.Turn, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		turns, err := rows.List(q, "", (*rows.Turn).Targets, viewTurn, rows.SelectTurn+` WHERE id = ?`, turnID)
		if err == nil && len(turns) == 0 {
			return agent.Errorf(agent.CodeNotFound, "turn %q does not exist", turnID)
		}
		if err == nil {
			turn = turns[0]
		}
		return err
	})
	return turn, err
}

// Entry reads one entry of an inbox.
func (s *Store) Entry(ctx context.Context, threadID string, kind memory.EntryKind, id string) (entry memory.InboxEntry, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		row := &rows.Entry{}
		err := q.Row(rows.SelectEntry+` WHERE thread_id = ? AND kind = ? AND id = ?`, threadID, string(kind), id).Scan(row.Targets()...)
		if rows.NoRows(err) {
			return agent.Errorf(agent.CodeNotFound, "thread %q has no inbox entry %s %q", threadID, kind, id)
		}
		if err == nil {
			err = row.Loaded()
		}
		entry = row.InboxEntry
		return err
	})
	return entry, err
}

// Steps lists the step records of a turn.
func (s *Store) Steps(ctx context.Context, turnID string) (steps []memory.Step, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		steps, err = rows.List(q, "", (*rows.Step).Targets,
			func(r *rows.Step) (memory.Step, error) {
				r.Loaded()
				if !r.Stored {
					return r.Step, nil
				}
				reply, err := r.ModelReply()
				r.FinishReason = reply.FinishReason
				return r.Step, err
			},
			rows.SelectStep+` WHERE turn_id = ? ORDER BY step`, turnID)
		if err == nil && len(steps) == 0 {
			var one int
			if err := q.Row(`SELECT 1 FROM turns WHERE id = ?`, turnID).Scan(&one); rows.NoRows(err) {
				return agent.Errorf(agent.CodeNotFound, "turn %q does not exist", turnID)
			} else if err != nil {
				return err
			}
		}
		return err
	})
	return steps, err
}

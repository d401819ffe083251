package sqlstore

import (
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/spool-agents/spool/agent"
)

const (
	callFixed   = `thread_id,turn_id,step,idx,name,args,delegation,created_at`
	callMutable = `status,gate,approval_id,attempts,fence,scope,number,repeatable,result,error_reason,duration_ms,child_thread,` +
		`child_agent,child_turn,background,task_id,updated_at,worker`
	callColumns = callFixed + `,` + callMutable + `,id`
	selectCall  = `SELECT ` + callColumns + ` FROM tool_calls`
)

var (
	insertCall = insertSQL("tool_calls", callColumns)
	updateCall = updateSQL("tool_calls", callMutable)
)

// callRow is a tool call with what only the store needs to know of it.
type callRow struct {
	agent.ToolCall
	args       string
	delegation bool
	approvalID string
	fence      fence
	repeatable bool
	childTurn  string
	background bool
	taskID     string
	created    int64
	updated    int64
	worker     string // the process that has the attempt in flight
}

func (c *callRow) targets() []any {
	return []any{
		&c.ThreadID, &c.TurnID, &c.Step, &c.Index, &c.ToolName, &c.args, (*intBool)(&c.delegation), &c.created,
		&c.Status, &c.Gate, &c.approvalID, &c.Attempts, &c.fence.seen, &c.fence.Scope, &c.fence.Number, (*intBool)(&c.repeatable),
		&c.Result, &c.ErrorReason, &c.DurationMs, &c.SubAgentThreadID, &c.SubAgentID, &c.childTurn, (*intBool)(&c.background), &c.taskID,
		&c.updated, &c.worker, &c.ID,
	}
}

func (c *callRow) fixed() []any {
	return []any{c.ThreadID, c.TurnID, c.Step, c.Index, c.ToolName, c.args, flag(c.delegation), c.created}
}

func (c *callRow) mutable() []any {
	return []any{
		string(c.Status), string(c.Gate), c.approvalID, c.Attempts, c.fence.seen, c.fence.Scope, c.fence.Number, flag(c.repeatable),
		c.Result, string(c.ErrorReason), c.DurationMs, c.SubAgentThreadID, c.SubAgentID, c.childTurn, flag(c.background), c.taskID,
		c.updated, c.worker,
	}
}

// loaded derives the fields that are not columns.
func (c *callRow) loaded() error {
	c.Args = json.RawMessage(c.args)
	c.CreatedAt, c.UpdatedAt = stamp(c.created), stamp(c.updated)
	if c.Status.Final() && c.Status != agent.CallSuccess {
		c.Error = c.Result
	}
	return nil
}

// view is the call as callers see it.
func (c *callRow) view() agent.ToolCall {
	v := c.ToolCall
	v.Args = append(json.RawMessage(nil), c.args...)
	return v
}

// waitsForAnswer reports whether the call is a question that waits for its answer. No
// activity runs it, so it has no fence.
func (c *callRow) waitsForAnswer() bool {
	return c.ToolName == agent.ToolAskUser && c.Status == agent.CallRunning && c.fence.Scope == ""
}

func callViews(calls []*callRow) []agent.ToolCall {
	var views []agent.ToolCall
	for _, c := range calls {
		views = append(views, c.view())
	}
	return views
}

// call loads a call of a turn; missing ones are CodeNotFound.
func (u *unit) call(turnID, callID string) (*callRow, error) {
	c := &callRow{}
	err := u.row(selectCall+` WHERE id = ?`, callID).Scan(c.targets()...)
	if errors.Is(err, sql.ErrNoRows) || err == nil && c.TurnID != turnID {
		return nil, agent.Errorf(agent.CodeNotFound, "tool call %q does not exist in turn %s", callID, turnID)
	}
	if err != nil {
		return nil, err
	}
	return c, c.loaded()
}

// calls loads the calls of a step in order.
func (u *unit) calls(turnID string, step int) ([]*callRow, error) {
	rows, err := u.rows(selectCall+` WHERE turn_id = ? AND step = ? ORDER BY idx`, turnID, step)
	return collect(rows, err, (*callRow).targets, (*callRow).loaded)
}

// saveCall puts a changed call back.
func (u *unit) saveCall(t *threadRow, c *callRow) error {
	t.touch()
	c.updated = t.at
	if err := u.exec(updateCall, append(c.mutable(), c.ID)...); err != nil {
		return err
	}
	return c.loaded()
}

// intBool scans an integer column into a bool.
type intBool bool

// Scan implements sql.Scanner.
func (b *intBool) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return errors.New("a flag column does not hold a number")
	}
	*b = n != 0
	return nil
}

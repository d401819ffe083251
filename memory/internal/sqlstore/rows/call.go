package rows

import (
	"encoding/json"
	"errors"

	"github.com/spool-agents/spool/agent"
)

// The columns of these rows, and the SELECT that reads them; a condition follows.
const (
	callFixed   = `thread_id,turn_id,step,idx,name,args,delegation,created_at`
	callMutable = `status,gate,approval_id,attempts,fence,scope,number,repeatable,result,error_reason,duration_ms,child_thread,` +
		`child_agent,child_turn,background,task_id,updated_at,worker`
	CallColumns = callFixed + `,` + callMutable + `,id`
	SelectCall  = `SELECT ` + CallColumns + ` FROM tool_calls`
)

// How these rows are written.
var (
	InsertCall = InsertSQL("tool_calls", CallColumns)
	updateCall = updateSQL("tool_calls", callMutable)
)

// Call is a tool call with what only the store needs to know of it.
type Call struct {
	agent.ToolCall
	ArgsText   string
	Delegation bool
	ApprovalID string
	Fence      fence
	Repeatable bool
	ChildTurn  string
	Background bool
	TaskID     string
	CreatedMs  int64
	UpdatedMs  int64
	Worker     string // the process that has the attempt in flight
}

// Targets are where a row's columns are read to, and what Values writes, in their order.
func (c *Call) Targets() []any {
	return []any{
		&c.ThreadID, &c.TurnID, &c.Step, &c.Index, &c.ToolName, &c.ArgsText, (*IntBool)(&c.Delegation), &c.CreatedMs,
		&c.Status, &c.Gate, &c.ApprovalID, &c.Attempts, &c.Fence.seen, &c.Fence.Scope, &c.Fence.Number, (*IntBool)(&c.Repeatable),
		&c.Result, &c.ErrorReason, &c.DurationMs, &c.SubAgentThreadID, &c.SubAgentID, &c.ChildTurn, (*IntBool)(&c.Background), &c.TaskID,
		&c.UpdatedMs, &c.Worker, &c.ID,
	}
}

// Loaded derives the fields that are not columns.
func (c *Call) Loaded() {
	c.Args = json.RawMessage(c.ArgsText)
	c.CreatedAt, c.UpdatedAt = Stamp(c.CreatedMs), Stamp(c.UpdatedMs)
	if c.Status.Final() && c.Status != agent.CallSuccess {
		c.Error = c.Result
	}
}

// View is the call as callers see it.
func (c *Call) View() agent.ToolCall {
	v := c.ToolCall
	v.Args = append(json.RawMessage(nil), c.ArgsText...)
	return v
}

// WaitsForAnswer reports whether the call is a question that waits for its answer. No
// activity runs it, so it has no fence.
func (c *Call) WaitsForAnswer() bool {
	return c.ToolName == agent.ToolAskUser && c.Status == agent.CallRunning && c.Fence.Scope == ""
}

// CallViews are the calls as callers see them.
func CallViews(calls []*Call) []agent.ToolCall {
	var views []agent.ToolCall
	for _, c := range calls {
		views = append(views, c.View())
	}
	return views
}

// Call loads a call of a turn; missing ones are CodeNotFound.
func (u *Unit) Call(turnID, callID string) *Call {
	c := &Call{}
	if !u.One(SelectCall+` WHERE id = ?`, callID).Into(c.Targets()...) || c.TurnID != turnID {
		Refuse(agent.CodeNotFound, "tool call %q does not exist in turn %s", callID, turnID)
	}
	c.Loaded()
	return c
}

// Calls loads the calls of a step in order.
func (u *Unit) Calls(turnID string, step int) []*Call {
	return Find(u, (*Call).Targets, (*Call).Loaded, SelectCall+` WHERE turn_id = ? AND step = ? ORDER BY idx`, turnID, step)
}

// SaveCall puts a changed call back.
func (u *Unit) SaveCall(t *Thread, c *Call) {
	t.Touch()
	c.UpdatedMs = t.At
	u.Exec(updateCall, Values(c.Targets()[columns(callFixed):])...)
	c.Loaded()
}

// IntBool scans an integer column into a bool.
type IntBool bool

// Scan implements sql.Scanner.
func (b *IntBool) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return errors.New("a flag column does not hold a number")
	}
	*b = n != 0
	return nil
}

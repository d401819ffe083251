package rules

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Ending is how a call ends.
type Ending struct {
	Status agent.CallStatus
	Reason agent.ErrorReason
	Text   string
	ms     int64
}

// Finish gives a call its result: the row, the tool_response event, the end of
// its own task, and a note on the parent of a sub-agent. The task of a
// delegation is not touched: it follows the child's turn.
func (u *Unit) Finish(t *rows.Thread, turn *rows.Turn, c *rows.Call, e Ending) error {
	if c.Delegation && c.SubAgentThreadID == "" {
		// It was never opened, so its tool_call event is still to be written.
		if err := u.Announce(t, turn, c); err != nil {
			return err
		}
	}
	c.Status, c.ErrorReason, c.DurationMs, c.Worker = e.Status, e.Reason, e.ms, ""
	c.Result = rows.Clean(e.Text)
	if err := u.SaveCall(t, c); err != nil {
		return err
	}
	if err := u.Refer(t.ID, c.Result); err != nil {
		return err
	}
	response := rows.ToolResponseEvent{
		ToolCallID: c.ID, Name: c.ToolName, Status: c.Status, ErrorReason: c.ErrorReason, DurationMs: c.DurationMs,
		SubAgentThread: c.SubAgentThreadID,
	}
	if len(c.Result) <= rows.MaxEventResult {
		response.Result = &c.Result
	} else {
		response.ResultRef, response.Preview, response.Size = agent.ToolMessageID(c.ID), rows.Short(c.Result, rows.MaxEventResult), len(c.Result)
	}
	if err := u.Event(t, turn.ID, agent.EventToolResponse, response); err != nil {
		return err
	}
	if !c.Delegation {
		if err := u.TaskEnd(t, c.TaskID, rows.TaskOfCall(c.Status), c.Result); err != nil {
			return err
		}
	}
	if turn.DelegatorThread == "" {
		return nil
	}
	return u.ToParent(turn, agent.EventSubAgentToolResult, rows.ChildToolResult{
		AgentID: t.AgentID, ToolCallID: c.ID, ToolName: c.ToolName, DurationMs: c.DurationMs, Status: c.Status,
		ParentToolCall: turn.DelegatorCall,
	})
}

// Announce writes the one tool_call event of a call, and its copy on the parent
// of a sub-agent.
func (u *Unit) Announce(t *rows.Thread, turn *rows.Turn, c *rows.Call) error {
	event := rows.ToolCallEvent{Intent: c.ToolName, Arguments: c.Args, ToolCallID: c.ID, SubAgentThread: c.SubAgentThreadID}
	if c.Gate != agent.GateAuto {
		event.Gate = c.Gate
	}
	err := u.Event(t, turn.ID, agent.EventToolCall, event)
	if err != nil || turn.DelegatorThread == "" {
		return err
	}
	return u.ToParent(turn, agent.EventSubAgentToolCall, rows.ChildToolCall{
		AgentID: t.AgentID, ToolCallID: c.ID, ToolName: c.ToolName, Arguments: rows.SmallArgs(c.Args), ParentToolCall: turn.DelegatorCall,
	})
}

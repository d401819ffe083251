package sqlstore

import (
	"github.com/spool-agents/spool/agent"
)

// ending is how a call ends.
type ending struct {
	status agent.CallStatus
	reason agent.ErrorReason
	text   string
	ms     int64
}

// finish gives a call its result: the row, the tool_response event, the end of
// its own task, and a note on the parent of a sub-agent. The task of a
// delegation is not touched: it follows the child's turn.
func (u *unit) finish(t *threadRow, turn *turnRow, c *callRow, e ending) error {
	if c.delegation && c.SubAgentThreadID == "" {
		// It was never opened, so its tool_call event is still to be written.
		if err := u.announce(t, turn, c); err != nil {
			return err
		}
	}
	c.Status, c.ErrorReason, c.DurationMs, c.worker = e.status, e.reason, e.ms, ""
	c.Result = clean(e.text)
	if err := u.saveCall(t, c); err != nil {
		return err
	}
	if err := u.refer(t.ID, c.Result); err != nil {
		return err
	}
	response := toolResponse{
		ToolCallID: c.ID, Name: c.ToolName, Status: c.Status, ErrorReason: c.ErrorReason, DurationMs: c.DurationMs,
		SubAgentThread: c.SubAgentThreadID,
	}
	if len(c.Result) <= eventResult {
		response.Result = &c.Result
	} else {
		response.ResultRef = agent.ToolMessageID(c.ID)
	}
	if err := u.event(t, turn.ID, agent.EventToolResponse, response); err != nil {
		return err
	}
	if !c.delegation {
		if err := u.taskEnd(t, c.taskID, taskOfCall(c.Status), c.Result); err != nil {
			return err
		}
	}
	if turn.DelegatorThread == "" {
		return nil
	}
	return u.toParent(turn, agent.EventSubAgentToolResult, childToolResult{
		AgentID: t.AgentID, ToolCallID: c.ID, ToolName: c.ToolName, DurationMs: c.DurationMs, Status: c.Status,
		ParentToolCall: turn.DelegatorCall,
	})
}

// announce writes the one tool_call event of a call, and its copy on the parent
// of a sub-agent.
func (u *unit) announce(t *threadRow, turn *turnRow, c *callRow) error {
	event := toolCall{Intent: c.ToolName, Arguments: c.Args, ToolCallID: c.ID, SubAgentThread: c.SubAgentThreadID}
	if c.Gate != agent.GateAuto {
		event.Gate = c.Gate
	}
	err := u.event(t, turn.ID, agent.EventToolCall, event)
	if err != nil || turn.DelegatorThread == "" {
		return err
	}
	return u.toParent(turn, agent.EventSubAgentToolCall, childToolCall{
		AgentID: t.AgentID, ToolCallID: c.ID, ToolName: c.ToolName, Arguments: smallArgs(c.Args), ParentToolCall: turn.DelegatorCall,
	})
}

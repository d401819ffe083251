package rules

import (
	"context"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// SaveToolRound appends the assistant message with all its results.
func (s *Store) SaveToolRound(ctx context.Context, r memory.RoundRequest) (memory.RoundSaved, error) {
	return writing(ctx, s, "round", func(u *Unit) (saved memory.RoundSaved) {
		t, turn, step := u.OpenStep(r.ThreadID, r.TurnID, r.Step)
		if step == nil || !step.Stored {
			rows.Refuse(agent.CodeConflict, "step %d of turn %s has no stored reply: its round cannot be saved", r.Step, turn.ID)
		}
		if step.Saved {
			rows.Check(rows.Decode(step.Round, &saved))
			return saved
		}
		calls := u.Calls(turn.ID, r.Step)
		allFinal(turn.ID, r.Step, calls)
		return u.saveRound(t, turn, step, calls)
	})
}

func allFinal(turnID string, step int, calls []*rows.Call) {
	if len(calls) == 0 {
		rows.Refuse(agent.CodeConflict, "the reply of step %d of turn %s calls no tool: it is an answer, saved by closing the turn", step, turnID)
	}
	var missing []string
	for _, c := range calls {
		if !c.Status.Final() {
			missing = append(missing, c.ID+" ("+string(c.Status)+")")
		}
	}
	if missing != nil {
		rows.Refuse(agent.CodeConflict, "step %d of turn %s has calls without a result: %s", step, turnID, strings.Join(missing, ", "))
	}
}

// saveRound appends a step's messages; every call has its result.
func (u *Unit) saveRound(t *rows.Thread, turn *rows.Turn, step *rows.Step, calls []*rows.Call) memory.RoundSaved {
	reply := step.ModelReply()
	content := agent.Text(reply.Content)
	if reply.Content == "" {
		content = agent.NullContent()
	}
	use := reply.Usage
	round := memory.RoundSaved{Results: len(calls)}
	round.FromSeq = u.Append(t, agent.Message{
		ID: agent.MessageID(turn.ID, step.Step.Step), Role: agent.RoleAssistant, Content: content, ToolCalls: reply.Calls,
		Reasoning: reply.Reasoning, Usage: &use, TurnID: turn.ID,
	})
	for _, c := range calls {
		round.ToSeq = u.Append(t, agent.Message{
			ID: agent.ToolMessageID(c.ID), Role: agent.RoleTool, Content: agent.Text(c.Result), ToolCallID: c.ID, Name: c.ToolName,
			TurnID: turn.ID, Status: c.Status, ErrorReason: c.ErrorReason,
		})
		if c.Status == agent.CallDenied && c.ErrorReason == agent.ErrDenied {
			round.Denied++
		}
	}
	if round.Denied > 0 {
		round.EndTurn = u.deniedByPerson(t, turn.ID, step.Step.Step)
	}
	u.stepSaved(turn, step, round)
	u.Appended(t, turn.ID, round.FromSeq, round.ToSeq)
	return round
}

// deniedByPerson reports whether the step's approval was denied as a whole: that
// ends the turn, unless the agent is to go on. The rest of a partial approval or
// of an edit does not.
func (u *Unit) deniedByPerson(t *rows.Thread, turnID string, step int) bool {
	var decision string
	u.One(`SELECT outcome FROM asks WHERE turn_id = ? AND step = ? AND kind = 'approval'`, turnID, step).Into(&decision)
	return decision == memory.Deny && u.Store.Config(u, t.ConfigHash).OnDeny != agent.OnDenyContinue
}

// stepSaved ends a step: its messages are appended, the streamed text is not needed any more.
func (u *Unit) stepSaved(turn *rows.Turn, step *rows.Step, round memory.RoundSaved) {
	u.DropChunks(step)
	step.State, step.Round, step.FromSeq, step.ToSeq, step.Worker = rows.StepSaved, rows.Must(rows.Encode(round)), round.FromSeq, round.ToSeq, ""
	turn.Saved, turn.Dirty = step.Step.Step, true
	u.SaveStep(step)
}

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
func (u *Unit) Finish(t *rows.Thread, turn *rows.Turn, c *rows.Call, e Ending) {
	if c.Delegation && c.SubAgentThreadID == "" {
		// It was never opened, so its tool_call event is still to be written.
		u.Announce(t, turn, c)
	}
	c.Status, c.ErrorReason, c.DurationMs, c.Worker = e.Status, e.Reason, e.ms, ""
	c.Result = rows.Clean(e.Text)
	if c.Gate == agent.GateEdited && e.Status != agent.CallAborted {
		c.Result = agent.TextEdited + "\n" + c.Result
	}
	u.SaveCall(t, c)
	u.Refer(t.ID, c.Result)
	response := rows.ToolResponseEvent{
		ToolCallID: c.ID, Name: c.ToolName, Status: c.Status, ErrorReason: c.ErrorReason, DurationMs: c.DurationMs,
		SubAgentThread: c.SubAgentThreadID,
	}
	if len(c.Result) <= rows.MaxEventResult {
		response.Result = &c.Result
	} else {
		response.ResultRef, response.Preview, response.Size = agent.ToolMessageID(c.ID), rows.Short(c.Result, rows.MaxEventResult), len(c.Result)
	}
	u.Event(t, turn.ID, agent.EventToolResponse, response)
	if !c.Delegation {
		u.TaskEnd(t, c.TaskID, rows.TaskOfCall(c.Status), c.Result)
	}
	if turn.DelegatorThread == "" {
		return
	}
	u.ToParent(turn, agent.EventSubAgentToolResult, rows.ChildToolResult{
		AgentID: t.AgentID, ToolCallID: c.ID, ToolName: c.ToolName, DurationMs: c.DurationMs, Status: c.Status,
		ParentToolCall: turn.DelegatorCall,
	})
}

// Announce writes the one tool_call event of a call, and its copy on the parent
// of a sub-agent.
func (u *Unit) Announce(t *rows.Thread, turn *rows.Turn, c *rows.Call) {
	event := rows.ToolCallEvent{Intent: c.ToolName, Arguments: c.Args, ToolCallID: c.ID, SubAgentThread: c.SubAgentThreadID}
	if c.Gate == agent.GateAsk || c.Gate == agent.GateDeny {
		event.Gate = c.Gate
	}
	u.Event(t, turn.ID, agent.EventToolCall, event)
	if turn.DelegatorThread == "" {
		return
	}
	u.ToParent(turn, agent.EventSubAgentToolCall, rows.ChildToolCall{
		AgentID: t.AgentID, ToolCallID: c.ID, ToolName: c.ToolName, Arguments: rows.SmallArgs(c.Args), ParentToolCall: turn.DelegatorCall,
	})
}

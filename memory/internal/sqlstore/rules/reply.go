package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// SaveReply stores the reply of an attempt, with its calls under our own ids.
func (s *Store) SaveReply(ctx context.Context, r memory.ReplyRecord) (memory.StoredReply, error) {
	return writing(ctx, s, "reply", func(u *Unit) memory.StoredReply {
		t, turn, step := u.OpenStep(r.ThreadID, r.TurnID, r.Step)
		if step == nil || step.Attempt != r.Attempt || step.State == rows.StepFailed {
			rows.Check(staleAttempt(r.TurnID, r.Step, r.Attempt))
		}
		if step.Stored {
			return *u.stored(step)
		}
		reply := ownReply(turn.ID, r)
		use := OneRequest(reply.Usage)
		step.Amend(func(a *rows.Account) {
			reply.Usage = reply.Usage.Add(a.Earlier) // what the message cost in all
			a.Stake = nil
		})
		step.State, step.Reply, step.Worker = rows.StepStored, rows.Must(rows.Encode(reply)), ""
		step.DurationMs += r.Duration.Milliseconds()
		u.SaveStep(step)
		use.ToolCalls = int64(len(reply.Calls))
		turn.Usage, turn.Dirty = turn.Usage.Add(use), true
		t.Count(use)
		u.use(t, use, r.Duration)
		u.settleReservation(turn.ID, r.Step)
		u.Warn(t, turn, r.Warnings)
		t.ContextWindow = agent.ContextWindow{Prompt: use.PromptTokens, Completion: use.CompletionTokens, Total: use.TotalTokens}
		u.Event(t, turn.ID, agent.EventStreamFinish, rows.StreamFinish{MessageID: agent.MessageID(turn.ID, r.Step), FinishReason: reply.FinishReason, Usage: reply.Usage, Model: reply.Model})
		if len(reply.Calls) == 0 {
			return memory.StoredReply{Reply: reply}
		}
		return memory.StoredReply{Reply: reply, Calls: rows.CallViews(u.saveCalls(t, turn, reply, r))}
	})
}

// ownReply is the reply with our call ids and storable texts.
func ownReply(turnID string, r memory.ReplyRecord) agent.ModelReply {
	reply := r.Reply
	reply.Content, reply.Reasoning = rows.Clean(reply.Content), rows.Clean(reply.Reasoning)
	reply.Calls = slices.Clone(reply.Calls)
	for i := range reply.Calls {
		c := &reply.Calls[i]
		c.ID = agent.CallID(turnID, r.Step, i)
		c.Type = cmp.Or(c.Type, "function")
		c.Function.Name, c.Function.Arguments = rows.Clean(c.Function.Name), rows.Clean(c.Function.Arguments)
	}
	return reply
}

// saveCalls writes the rows and events of a reply's calls. A delegation's
// tool_call event is written when it is opened, because it carries the link.
func (u *Unit) saveCalls(t *rows.Thread, turn *rows.Turn, reply agent.ModelReply, r memory.ReplyRecord) []*rows.Call {
	gates := u.gates(t, reply.Calls, r.Gates)
	u.Event(t, turn.ID, agent.EventToolCalls, rows.ToolCallsEvent{ToolCalls: reply.Calls, Usage: &reply.Usage})
	var calls []*rows.Call
	for i, c := range reply.Calls {
		row := &rows.Call{ToolCall: agent.ToolCall{
			ID: c.ID, ThreadID: t.ID, TurnID: turn.ID, Step: r.Step, Index: i, ToolName: c.Function.Name,
			Status: agent.CallPending, Gate: gates[i],
		}, ArgsText: string(rows.JSONArgs(c.Function.Arguments)), Delegation: i < len(r.Delegations) && r.Delegations[i], CreatedMs: t.At, UpdatedMs: t.At}
		if !row.Delegation && t.Kind == agent.KindMain {
			row.TaskID = agent.TaskID(c.ID)
			u.NewTask(t, turn, c.ID, "tool", c.Function.Name, row.ArgsText, "")
		}
		u.Exec(rows.InsertCall, rows.Values(row.Targets())...)
		row.Loaded()
		if !row.Delegation {
			u.Announce(t, turn, row)
		}
		calls = append(calls, row)
	}
	for i, row := range calls {
		if e, ends := atOnce(row, i, r.Refusals); ends {
			u.Finish(t, turn, row, e)
		}
	}
	return calls
}

// atOnce is the end of a call that never begins.
func atOnce(row *rows.Call, i int, refusals []agent.ToolResult) (Ending, bool) {
	switch {
	case row.Gate == agent.GateDeny:
		return Ending{Status: agent.CallDenied, Reason: agent.ErrPermissionDenied, Text: agent.RefuseTool(row.ToolName)}, true
	case i < len(refusals) && refusals[i].Status != "":
		return Ending{Status: refusals[i].Status, Reason: refusals[i].ErrorReason, Text: refusals[i].Content}, true
	}
	return Ending{}, false
}

// gates are the gates in force: what a person approved for the session need
// not be asked again.
func (u *Unit) gates(t *rows.Thread, calls []agent.Call, asked []agent.Gate) []agent.Gate {
	gates := make([]agent.Gate, len(calls))
	var holds func(tool string) bool
	for i := range calls {
		gates[i] = agent.GateAuto
		if i < len(asked) && asked[i] != "" {
			gates[i] = asked[i]
		}
		if gates[i] == agent.GateAskEach {
			gates[i] = agent.GateAsk
			continue
		}
		if gates[i] != agent.GateAsk {
			continue
		}
		if holds == nil {
			holds = u.grants(t)
		}
		narrow := agent.NarrowRule(calls[i].Function.Name, json.RawMessage(calls[i].Function.Arguments))
		if holds(calls[i].Function.Name) || narrow != "" && holds(narrow) {
			gates[i] = agent.GateAuto
		}
	}
	return gates
}

// grants says which tools a person approved for the session, for the agent of a thread
// or for one that called it.
func (u *Unit) grants(t *rows.Thread) (holds func(tool string) bool) {
	given := u.Strings(`SELECT tool_name FROM approved_tools WHERE session_id = ?`, t.SessionID)
	var agents []agent.SpecialistAgentConfig
	parent, hash := t.ParentThreadID, t.ConfigHash
	for there := len(given) > 0; there; {
		agents = append(agents, u.Store.Config(u, hash))
		there = parent != "" && u.One(`SELECT parent_id, config_hash FROM threads WHERE id = ?`, parent).Into(&parent, &hash)
	}
	return func(tool string) bool {
		return slices.ContainsFunc(agents, func(c agent.SpecialistAgentConfig) bool { return slices.Contains(given, grant(c, tool)) })
	}
}

// grant is how a permission for the session is stored.
func grant(c agent.SpecialistAgentConfig, rule string) string {
	return rows.PermissionKey(memory.Permission{Rule: rule, Agent: c.Name, Source: c.Source})
}

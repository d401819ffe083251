package sqlstore

import (
	"context"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// SaveReply stores the reply of an attempt, with its calls under our own ids.
func (s *Store) SaveReply(ctx context.Context, r memory.ReplyRecord) (stored memory.StoredReply, err error) {
	err = s.write(ctx, "reply", func(u *unit) error {
		stored = memory.StoredReply{}
		t, turn, err := u.open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		step, err := u.step(turn.ID, r.Step)
		if err != nil {
			return err
		}
		if step == nil || step.Attempt != r.Attempt || step.state == stepFailed {
			return staleAttempt(r.TurnID, r.Step, r.Attempt)
		}
		if step.Stored {
			again, err := u.stored(step)
			if err == nil {
				stored = *again
			}
			return err
		}
		stored, err = u.saveReply(t, turn, step, r)
		return err
	})
	return stored, err
}

func (u *unit) saveReply(t *threadRow, turn *turnRow, step *stepRow, r memory.ReplyRecord) (memory.StoredReply, error) {
	reply := ownReply(turn.ID, r)
	use := oneRequest(reply.Usage)
	if err := step.amend(func(a *account) {
		reply.Usage = reply.Usage.Add(a.Earlier) // what the message cost in all
		a.Stake = nil
	}); err != nil {
		return memory.StoredReply{}, err
	}
	body, err := encode(reply)
	if err != nil {
		return memory.StoredReply{}, err
	}
	step.state, step.reply, step.worker = stepStored, body, ""
	step.durationMs += r.Duration.Milliseconds()
	if err := u.saveStep(step); err != nil {
		return memory.StoredReply{}, err
	}
	use.ToolCalls = int64(len(reply.Calls))
	turn.Usage, turn.dirty = turn.Usage.Add(use), true
	t.count(use)
	if err := u.use(t, use, r.Duration); err != nil {
		return memory.StoredReply{}, err
	}
	if err := u.settleReservation(turn.ID, r.Step); err != nil {
		return memory.StoredReply{}, err
	}
	if err := u.warn(t, turn, r.Warnings); err != nil {
		return memory.StoredReply{}, err
	}
	t.ContextWindow = agent.ContextWindow{Prompt: use.PromptTokens, Completion: use.CompletionTokens, Total: use.TotalTokens}
	if err := u.event(t, turn.ID, agent.EventStreamFinish, streamFinish{MessageID: agent.MessageID(turn.ID, r.Step), FinishReason: reply.FinishReason, Usage: reply.Usage, Model: reply.Model}); err != nil {
		return memory.StoredReply{}, err
	}
	if len(reply.Calls) == 0 {
		return memory.StoredReply{Reply: reply}, nil
	}
	calls, err := u.saveCalls(t, turn, reply, r)
	return memory.StoredReply{Reply: reply, Calls: callViews(calls)}, err
}

// ownReply is the reply with our call ids and storable texts.
func ownReply(turnID string, r memory.ReplyRecord) agent.ModelReply {
	reply := r.Reply
	reply.Content, reply.Reasoning = clean(reply.Content), clean(reply.Reasoning)
	reply.Calls = slices.Clone(reply.Calls)
	for i := range reply.Calls {
		c := &reply.Calls[i]
		c.ID = agent.CallID(turnID, r.Step, i)
		c.Type = or(c.Type, "function")
		c.Function.Name, c.Function.Arguments = clean(c.Function.Name), clean(c.Function.Arguments)
	}
	return reply
}

// saveCalls writes the rows and events of a reply's calls. A delegation's
// tool_call event is written when it is opened, because it carries the link.
func (u *unit) saveCalls(t *threadRow, turn *turnRow, reply agent.ModelReply, r memory.ReplyRecord) ([]*callRow, error) {
	gates, err := u.gates(t, reply.Calls, r.Gates)
	if err != nil {
		return nil, err
	}
	if err := u.event(t, turn.ID, agent.EventToolCalls, toolCalls{ToolCalls: reply.Calls, Usage: &reply.Usage}); err != nil {
		return nil, err
	}
	var calls []*callRow
	for i, c := range reply.Calls {
		row := &callRow{ToolCall: agent.ToolCall{
			ID: c.ID, ThreadID: t.ID, TurnID: turn.ID, Step: r.Step, Index: i, ToolName: c.Function.Name,
			Status: agent.CallPending, Gate: gates[i],
		}, args: string(jsonArgs(c.Function.Arguments)), delegation: i < len(r.Delegations) && r.Delegations[i], created: t.at, updated: t.at}
		if !row.delegation && t.Kind == agent.KindMain {
			row.taskID = agent.TaskID(c.ID)
			if err := u.newTask(t, turn, c.ID, "tool", c.Function.Name, row.args, ""); err != nil {
				return nil, err
			}
		}
		if err := u.exec(insertCall, append(append(row.fixed(), row.mutable()...), row.ID)...); err != nil {
			return nil, err
		}
		if err := row.loaded(); err != nil {
			return nil, err
		}
		if !row.delegation {
			if err := u.announce(t, turn, row); err != nil {
				return nil, err
			}
		}
		calls = append(calls, row)
	}
	for i, row := range calls {
		e, ends := atOnce(row, i, r.Refusals)
		if !ends {
			continue
		}
		if err := u.finish(t, turn, row, e); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// atOnce is the end of a call that never begins.
func atOnce(row *callRow, i int, refusals []agent.ToolResult) (ending, bool) {
	switch {
	case row.Gate == agent.GateDeny:
		return ending{status: agent.CallDenied, reason: agent.ErrPermissionDenied, text: agent.RefuseTool(row.ToolName)}, true
	case i < len(refusals) && refusals[i].Status != "":
		return ending{status: refusals[i].Status, reason: refusals[i].ErrorReason, text: refusals[i].Content}, true
	}
	return ending{}, false
}

// gates are the gates in force: what a person approved for the session need
// not be asked again.
func (u *unit) gates(t *threadRow, calls []agent.Call, asked []agent.Gate) ([]agent.Gate, error) {
	gates := make([]agent.Gate, len(calls))
	var remembered []string
	for i := range calls {
		gates[i] = agent.GateAuto
		if i < len(asked) && asked[i] != "" {
			gates[i] = asked[i]
		}
		if gates[i] != agent.GateAsk {
			continue
		}
		if remembered == nil {
			names, err := u.strings(`SELECT tool_name FROM approved_tools WHERE session_id = ?`, t.SessionID)
			if err != nil {
				return nil, err
			}
			remembered = append(names, "")
		}
		if slices.Contains(remembered, calls[i].Function.Name) {
			gates[i] = agent.GateAuto
		}
	}
	return gates, nil
}

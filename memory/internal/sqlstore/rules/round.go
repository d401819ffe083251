package rules

import (
	"context"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// SaveToolRound appends the assistant message with all its results.
func (s *Store) SaveToolRound(ctx context.Context, r memory.RoundRequest) (saved memory.RoundSaved, err error) {
	err = s.write(ctx, "round", func(u *Unit) error {
		saved = memory.RoundSaved{}
		t, turn, step, err := u.OpenStep(r.ThreadID, r.TurnID, r.Step)
		if err != nil {
			return err
		}
		if step == nil || !step.Stored {
			return agent.Errorf(agent.CodeConflict, "step %d of turn %s has no stored reply: its round cannot be saved", r.Step, turn.ID)
		}
		if step.Saved {
			return rows.Decode(step.Round, &saved)
		}
		calls, err := u.Calls(turn.ID, r.Step)
		if err != nil {
			return err
		}
		if err := allFinal(turn.ID, r.Step, calls); err != nil {
			return err
		}
		saved, err = u.saveRound(t, turn, step, calls)
		return err
	})
	return saved, err
}

func allFinal(turnID string, step int, calls []*rows.Call) error {
	if len(calls) == 0 {
		return agent.Errorf(agent.CodeConflict, "the reply of step %d of turn %s calls no tool: it is an answer, saved by closing the turn", step, turnID)
	}
	var missing []string
	for _, c := range calls {
		if !c.Status.Final() {
			missing = append(missing, c.ID+" ("+string(c.Status)+")")
		}
	}
	if missing != nil {
		return agent.Errorf(agent.CodeConflict, "step %d of turn %s has calls without a result: %s", step, turnID, strings.Join(missing, ", "))
	}
	return nil
}

// saveRound appends a step's messages; every call has its result.
func (u *Unit) saveRound(t *rows.Thread, turn *rows.Turn, step *rows.Step, calls []*rows.Call) (memory.RoundSaved, error) {
	reply, err := step.ModelReply()
	if err != nil {
		return memory.RoundSaved{}, err
	}
	content := agent.Text(reply.Content)
	if reply.Content == "" {
		content = agent.NullContent()
	}
	use := reply.Usage
	round := memory.RoundSaved{Results: len(calls)}
	round.FromSeq, err = u.Append(t, agent.Message{
		ID: agent.MessageID(turn.ID, step.Step.Step), Role: agent.RoleAssistant, Content: content, ToolCalls: reply.Calls,
		Reasoning: reply.Reasoning, Usage: &use, TurnID: turn.ID,
	})
	if err != nil {
		return round, err
	}
	for _, c := range calls {
		round.ToSeq, err = u.Append(t, agent.Message{
			ID: agent.ToolMessageID(c.ID), Role: agent.RoleTool, Content: agent.Text(c.Result), ToolCallID: c.ID, Name: c.ToolName,
			TurnID: turn.ID, Status: c.Status, ErrorReason: c.ErrorReason,
		})
		if err != nil {
			return round, err
		}
		if c.Status == agent.CallDenied && c.ErrorReason == agent.ErrDenied {
			round.Denied++
		}
	}
	if round.Denied > 0 {
		if round.EndTurn, err = u.deniedByPerson(t, turn.ID, step.Step.Step); err != nil {
			return round, err
		}
	}
	if err := u.stepSaved(turn, step, round); err != nil {
		return round, err
	}
	return round, u.Appended(t, turn.ID, round.FromSeq, round.ToSeq)
}

// deniedByPerson reports whether the step's approval was denied as a whole: that
// ends the turn, unless the agent is to go on. The rest of a partial approval or
// of an edit does not.
func (u *Unit) deniedByPerson(t *rows.Thread, turnID string, step int) (bool, error) {
	var decision string
	err := u.Row(`SELECT outcome FROM asks WHERE turn_id = ? AND step = ? AND kind = 'approval'`, turnID, step).Scan(&decision)
	if rows.NoRows(err) {
		return false, nil
	}
	if err != nil || decision != memory.Deny {
		return false, err
	}
	c, err := u.Store.Config(u, t.ConfigHash)
	return c.OnDeny != agent.OnDenyContinue, err
}

// stepSaved ends a step: its messages are appended, the streamed text is not needed any more.
func (u *Unit) stepSaved(turn *rows.Turn, step *rows.Step, round memory.RoundSaved) error {
	body, err := rows.Encode(round)
	if err != nil {
		return err
	}
	if err := u.DropChunks(step); err != nil {
		return err
	}
	step.State, step.Round, step.FromSeq, step.ToSeq, step.Worker = rows.StepSaved, body, round.FromSeq, round.ToSeq, ""
	turn.Saved, turn.Dirty = step.Step.Step, true
	return u.SaveStep(step)
}

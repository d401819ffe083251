package rules

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// lastMessage finishes the unsaved step of a turn that ends, appends its final
// or partial message and returns that text.
func (u *Unit) lastMessage(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest) (string, error) {
	step, err := u.Step(turn.ID, turn.Saved+1)
	if err != nil {
		return "", err
	}
	if step != nil {
		if err := u.chargeLost(t, turn, step); err != nil {
			return "", err
		}
	}
	if step != nil && step.Wait != "" { // nobody waits any more
		step.Wait = ""
		if err := u.SaveStep(step); err != nil {
			return "", err
		}
	}
	completed := r.Outcome == agent.ThreadCompleted
	if completed && r.Answer == "" {
		return u.storedAnswer(t, turn, step, r)
	}
	if step != nil && step.Stored {
		reply, err := step.ModelReply()
		if err != nil {
			return "", err
		}
		switch {
		case len(reply.Calls) > 0:
			if err := u.abortCalls(t, turn, step, r); err != nil {
				return "", err
			}
		case !completed:
			return reply.Content, u.answer(t, turn, step, reply, false)
		}
	}
	if completed {
		return r.Answer, u.givenAnswer(t, turn, r)
	}
	if step == nil || step.Stored {
		return "", nil
	}
	return u.partial(t, turn, step)
}

// storedAnswer appends the reply stored for the last step.
func (u *Unit) storedAnswer(t *rows.Thread, turn *rows.Turn, step *rows.Step, r memory.CloseRequest) (string, error) {
	if r.Step != 0 && r.Step != turn.Saved+1 {
		return "", agent.Errorf(agent.CodeConflict, "turn %s cannot complete with step %d: step %d is the one not saved", turn.ID, r.Step, turn.Saved+1)
	}
	if step == nil || !step.Stored {
		return "", agent.Errorf(agent.CodeConflict, "turn %s cannot complete: step %d has no stored reply", turn.ID, turn.Saved+1)
	}
	reply, err := step.ModelReply()
	if err != nil {
		return "", err
	}
	if len(reply.Calls) > 0 {
		return "", agent.Errorf(agent.CodeConflict, "turn %s cannot complete: the calls of step %d are not saved", turn.ID, turn.Saved+1)
	}
	return reply.Content, u.answer(t, turn, step, reply, true)
}

// answer appends a reply without calls. final ones are announced by an
// assistant_message event; the text of a turn that failed after its last reply
// is kept all the same.
func (u *Unit) answer(t *rows.Thread, turn *rows.Turn, step *rows.Step, reply agent.ModelReply, final bool) error {
	use := reply.Usage
	m := agent.Message{
		ID: agent.MessageID(turn.ID, step.Step.Step), Role: agent.RoleAssistant, Content: agent.Text(reply.Content),
		Reasoning: reply.Reasoning, Usage: &use, TurnID: turn.ID,
	}
	seq, err := u.Append(t, m)
	if err != nil {
		return err
	}
	turn.AnswerSeq = seq
	if err := u.stepSaved(turn, step, memory.RoundSaved{FromSeq: seq, ToSeq: seq}); err != nil {
		return err
	}
	return u.answered(t, turn, m, seq, final)
}

// givenAnswer appends a text that no model wrote, such as after a denial.
func (u *Unit) givenAnswer(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest) error {
	number := turn.Saved + 1
	m := agent.Message{
		ID: agent.MessageID(turn.ID, number), Role: agent.RoleAssistant, Content: agent.Text(rows.Clean(r.Answer)), TurnID: turn.ID,
	}
	seq, err := u.Append(t, m)
	if err != nil {
		return err
	}
	turn.AnswerSeq = seq
	turn.Steps = max(turn.Steps, number)
	step, err := u.Step(turn.ID, number)
	if err != nil {
		return err
	}
	if step != nil {
		if err := u.stepSaved(turn, step, memory.RoundSaved{FromSeq: seq, ToSeq: seq}); err != nil {
			return err
		}
	}
	return u.answered(t, turn, m, seq, true)
}

func (u *Unit) answered(t *rows.Thread, turn *rows.Turn, m agent.Message, seq int64, final bool) error {
	if final {
		err := u.Event(t, turn.ID, agent.EventAssistantMessage, rows.AssistantMessageEvent{MessageID: m.ID, Content: m.Content, Usage: m.Usage})
		if err != nil {
			return err
		}
	}
	return u.Appended(t, turn.ID, seq, seq)
}

// partial appends what the current attempt of a step has streamed, once.
func (u *Unit) partial(t *rows.Thread, turn *rows.Turn, step *rows.Step) (string, error) {
	text, reasoning, err := rows.Streamed(u, step.TurnID, step.Step.Step)
	if err != nil {
		return "", err
	}
	if text == "" {
		if err := u.DropChunks(step); err != nil {
			return "", err
		}
		step.Worker = ""
		return "", u.SaveStep(step)
	}
	a, err := step.ReadAccount()
	if err != nil {
		return "", err
	}
	m := agent.Message{
		ID: agent.MessageID(turn.ID, step.Step.Step), Role: agent.RoleAssistant, Content: agent.Text(text), Reasoning: reasoning,
		TurnID: turn.ID, Partial: true,
	}
	if a.Earlier.Requests > 0 {
		m.Usage = &a.Earlier
	}
	seq, err := u.Append(t, m)
	if err != nil {
		return "", err
	}
	turn.AnswerSeq = seq
	if err := u.stepSaved(turn, step, memory.RoundSaved{FromSeq: seq, ToSeq: seq}); err != nil {
		return "", err
	}
	return text, u.Appended(t, turn.ID, seq, seq)
}

// abortCalls gives every unfinished call of a step a result and appends the round.
func (u *Unit) abortCalls(t *rows.Thread, turn *rows.Turn, step *rows.Step, r memory.CloseRequest) error {
	calls, err := u.Calls(turn.ID, step.Step.Step)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if c.Status.Final() {
			continue
		}
		e := Ending{Status: agent.CallAborted, Reason: agent.ErrAborted, Text: agent.StoppedText(r.Outcome, r.Reason)}
		if c.SubAgentThreadID != "" {
			if e.Text, err = u.stoppedChild(c, e.Text); err != nil {
				return err
			}
		}
		// A tool that was killed with its worker may have taken effect. One that
		// was stopped by a cancel had to stop.
		if r.Reason == agent.ReasonTerminated && c.Status == agent.CallRunning && !c.Repeatable && !c.Delegation {
			e = Ending{Status: agent.CallUnknown, Reason: agent.ErrUnknown, Text: agent.TextUnknown}
		}
		if err := u.Finish(t, turn, c, e); err != nil {
			return err
		}
	}
	_, err = u.saveRound(t, turn, step, calls)
	return err
}

// stoppedChild is the result of a delegation that was aborted: how far the
// sub-agent came, and its id, so that it can be resumed.
func (u *Unit) stoppedChild(c *rows.Call, why string) (string, error) {
	child, err := u.Turn(c.ChildTurn)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return why + "\n\n" + agent.DelegationResultFormatter{}.Unstarted(c.SubAgentID, c.SubAgentThreadID), nil
	}
	if err != nil {
		return "", err
	}
	o, err := u.Outcome(child)
	return why + "\n\n" + agent.DelegationResultFormatter{}.Result(o), err
}

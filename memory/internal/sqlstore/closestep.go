package sqlstore

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// lastMessage finishes the unsaved step of a turn that ends, appends its final
// or partial message and returns that text.
func (u *unit) lastMessage(t *threadRow, turn *turnRow, r memory.CloseRequest) (string, error) {
	step, err := u.step(turn.ID, turn.saved+1)
	if err != nil {
		return "", err
	}
	if step != nil {
		if err := u.chargeLost(t, turn, step); err != nil {
			return "", err
		}
	}
	if step != nil && step.wait != "" { // nobody waits any more
		step.wait = ""
		if err := u.saveStep(step); err != nil {
			return "", err
		}
	}
	completed := r.Outcome == agent.ThreadCompleted
	if completed && r.Answer == "" {
		return u.storedAnswer(t, turn, step, r)
	}
	if step != nil && step.Stored {
		reply, err := step.modelReply()
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
func (u *unit) storedAnswer(t *threadRow, turn *turnRow, step *stepRow, r memory.CloseRequest) (string, error) {
	if r.Step != 0 && r.Step != turn.saved+1 {
		return "", agent.Errorf(agent.CodeConflict, "turn %s cannot complete with step %d: step %d is the one not saved", turn.ID, r.Step, turn.saved+1)
	}
	if step == nil || !step.Stored {
		return "", agent.Errorf(agent.CodeConflict, "turn %s cannot complete: step %d has no stored reply", turn.ID, turn.saved+1)
	}
	reply, err := step.modelReply()
	if err != nil {
		return "", err
	}
	if len(reply.Calls) > 0 {
		return "", agent.Errorf(agent.CodeConflict, "turn %s cannot complete: the calls of step %d are not saved", turn.ID, turn.saved+1)
	}
	return reply.Content, u.answer(t, turn, step, reply, true)
}

// answer appends a reply without calls. final ones are announced by an
// assistant_message event; the text of a turn that failed after its last reply
// is kept all the same.
func (u *unit) answer(t *threadRow, turn *turnRow, step *stepRow, reply agent.ModelReply, final bool) error {
	use := reply.Usage
	m := agent.Message{
		ID: agent.MessageID(turn.ID, step.Step.Step), Role: agent.RoleAssistant, Content: agent.Text(reply.Content),
		Reasoning: reply.Reasoning, Usage: &use, TurnID: turn.ID,
	}
	seq, err := u.append(t, m)
	if err != nil {
		return err
	}
	turn.answerSeq = seq
	if err := u.stepSaved(turn, step, memory.RoundSaved{FromSeq: seq, ToSeq: seq}); err != nil {
		return err
	}
	return u.answered(t, turn, m, seq, final)
}

// givenAnswer appends a text that no model wrote, such as after a denial.
func (u *unit) givenAnswer(t *threadRow, turn *turnRow, r memory.CloseRequest) error {
	number := turn.saved + 1
	m := agent.Message{
		ID: agent.MessageID(turn.ID, number), Role: agent.RoleAssistant, Content: agent.Text(clean(r.Answer)), TurnID: turn.ID,
	}
	seq, err := u.append(t, m)
	if err != nil {
		return err
	}
	turn.answerSeq = seq
	turn.Steps = max(turn.Steps, number)
	step, err := u.step(turn.ID, number)
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

func (u *unit) answered(t *threadRow, turn *turnRow, m agent.Message, seq int64, final bool) error {
	if final {
		err := u.event(t, turn.ID, agent.EventAssistantMessage, assistantMessage{MessageID: m.ID, Content: m.Content, Usage: m.Usage})
		if err != nil {
			return err
		}
	}
	return u.appended(t, turn.ID, seq, seq)
}

// partial appends what the current attempt of a step has streamed, once.
func (u *unit) partial(t *threadRow, turn *turnRow, step *stepRow) (string, error) {
	text, reasoning, err := streamed(u, step.TurnID, step.Step.Step)
	if err != nil {
		return "", err
	}
	if text == "" {
		if err := u.dropChunks(step); err != nil {
			return "", err
		}
		step.worker = ""
		return "", u.saveStep(step)
	}
	a, err := step.readAccount()
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
	seq, err := u.append(t, m)
	if err != nil {
		return "", err
	}
	turn.answerSeq = seq
	if err := u.stepSaved(turn, step, memory.RoundSaved{FromSeq: seq, ToSeq: seq}); err != nil {
		return "", err
	}
	return text, u.appended(t, turn.ID, seq, seq)
}

// abortCalls gives every unfinished call of a step a result and appends the round.
func (u *unit) abortCalls(t *threadRow, turn *turnRow, step *stepRow, r memory.CloseRequest) error {
	calls, err := u.calls(turn.ID, step.Step.Step)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if c.Status.Final() {
			continue
		}
		e := ending{status: agent.CallAborted, reason: agent.ErrAborted, text: agent.StoppedText(r.Outcome, r.Reason)}
		if c.SubAgentThreadID != "" {
			if e.text, err = u.stoppedChild(c, e.text); err != nil {
				return err
			}
		}
		// A tool that was killed with its worker may have taken effect. One that
		// was stopped by a cancel had to stop.
		if r.Reason == agent.ReasonTerminated && c.Status == agent.CallRunning && !c.repeatable && !c.delegation {
			e = ending{status: agent.CallUnknown, reason: agent.ErrUnknown, text: agent.TextUnknown}
		}
		if err := u.finish(t, turn, c, e); err != nil {
			return err
		}
	}
	_, err = u.saveRound(t, turn, step, calls)
	return err
}

// stoppedChild is the result of a delegation that was aborted: how far the
// sub-agent came, and its id, so that it can be resumed.
func (u *unit) stoppedChild(c *callRow, why string) (string, error) {
	child, err := u.turn(c.childTurn)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return why + "\n\n" + agent.DelegationResultFormatter{}.Unstarted(c.SubAgentID, c.SubAgentThreadID), nil
	}
	if err != nil {
		return "", err
	}
	o, err := u.outcome(child)
	return why + "\n\n" + agent.DelegationResultFormatter{}.Result(o), err
}

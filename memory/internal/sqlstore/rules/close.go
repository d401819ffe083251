package rules

import (
	"cmp"
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// SummaryLength is how much of its answer a sub-agent's thread shows.
const SummaryLength = 200

// CloseTurn ends a turn in every respect; a repeated close returns what the first one did.
func (s *Store) CloseTurn(ctx context.Context, r memory.CloseRequest) (closed memory.Closed, err error) {
	if !r.Outcome.Final() {
		return closed, agent.Errorf(agent.CodeInvalid, "outcome %q of turn %s is not valid: use completed, failed or cancelled", r.Outcome, r.TurnID)
	}
	return writing(ctx, s, "close", func(u *Unit) (closed memory.Closed) {
		t := u.Thread(r.ThreadID)
		turn := u.Turn(r.TurnID)
		if turn.ThreadID != t.ID {
			rows.Refuse(agent.CodeNotFound, "turn %q does not exist in thread %s", r.TurnID, t.ID)
		}
		if turn.State == memory.TurnClosed {
			rows.Check(rows.Decode(turn.Closed, &closed))
			closed.Already = true
			return closed
		}
		r := u.answeredBefore(turn, r)
		closed = memory.Closed{Outcome: r.Outcome}
		u.End(t, turn, r, &closed)
		u.deliver(turn, &closed)
		u.claimNext(t, turn, r, &closed)
		u.Remember(turn, closed)
		return closed
	})
}

// answeredBefore completes a turn whose run is gone but whose final reply is stored: a
// reply that is stored is never asked for again.
func (u *Unit) answeredBefore(turn *rows.Turn, r memory.CloseRequest) memory.CloseRequest {
	if r.Outcome != agent.ThreadFailed || r.Reason != agent.ReasonTerminated {
		return r
	}
	if step := u.Step(turn.ID, turn.Saved+1); step != nil && step.Stored && len(step.ModelReply().Calls) == 0 {
		// The reason stays: it says that nothing runs a next turn.
		r.Outcome, r.Code, r.Message, r.Answer, r.Step = agent.ThreadCompleted, "", "", "", 0
	}
	return r
}

// Remember records what the close returned, for its repetitions.
func (u *Unit) Remember(turn *rows.Turn, closed memory.Closed) {
	turn.Closed, turn.Dirty = rows.Must(rows.Encode(closed)), true
}

// End is everything up to the done or error event: steps (2) to (5) of the
// state machine. It serves a turn that is closed and its descendants closed along.
func (u *Unit) End(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest, closed *memory.Closed) {
	turn.Dirty = true
	closed.FromSeq = t.LastMessage + 1
	u.Exec(`DELETE FROM reservations WHERE turn_id = ?`, turn.ID)
	u.abortAsks(t, turn)
	u.endChildren(t, turn, r, closed)
	answer := u.lastMessage(t, turn, r)
	closed.ToSeq = t.LastMessage
	if closed.ToSeq < closed.FromSeq {
		closed.FromSeq, closed.ToSeq = 0, 0
	}
	t.Touch()
	turn.State, turn.Outcome, turn.Reason = memory.TurnClosed, r.Outcome, r.Reason
	turn.ClosedMs, turn.ClosedAt = t.At, rows.StampOrNil(t.At)
	turn.Answer = answer
	t.TotalTimeMs += turn.ClosedMs - turn.OpenedMs
	t.OpenTurnID, t.Status, t.Reason = "", r.Outcome, ""
	if t.Waiting > 0 { // who steered a turn that is over steers no other one
		u.Exec(`UPDATE inbox SET when_busy = 'queue' WHERE thread_id = ? AND state = 'waiting' AND when_busy = 'steer'`, t.ID)
	}
	switch r.Outcome {
	case agent.ThreadCompleted:
		turn.Reason = ""
	case agent.ThreadFailed:
		turn.Reason = agent.Reason(cmp.Or(string(r.Reason), string(agent.ReasonError)))
		t.Reason = turn.Reason
	}
	if t.Kind == agent.KindSubAgent {
		t.Summary = rows.Short(answer, SummaryLength)
	}
	u.endEvent(t, turn, r)
}

// endEvent writes the one done or error event and ends the task of a sub-agent's turn.
func (u *Unit) endEvent(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest) {
	if turn.Outcome == agent.ThreadCompleted {
		u.Event(t, turn.ID, agent.EventDone, rows.TurnDone{ResponseTimeMs: turn.ClosedMs - turn.OpenedMs, Usage: turn.Usage})
		u.EndDelegatorTask(turn, turn.Answer)
		return
	}
	turn.ErrorCode, turn.Error = r.Code, rows.Clean(r.Message)
	if turn.Outcome == agent.ThreadCancelled {
		turn.ErrorCode = "cancelled"
		turn.Error = cmp.Or(turn.Error, "the turn was cancelled")
	}
	turn.ErrorCode = cmp.Or(turn.ErrorCode, string(turn.Reason))
	turn.Error = cmp.Or(turn.Error, "the turn failed")
	retryable := turn.Outcome == agent.ThreadFailed && turn.Reason != agent.ReasonLimit && turn.Reason != agent.ReasonDenied
	u.Event(t, turn.ID, agent.EventError, rows.TurnError{Code: turn.ErrorCode, Message: turn.Error, Retryable: retryable})
	u.EndDelegatorTask(turn, turn.Error)
}

// EndDelegatorTask ends the task that a sub-agent's turn works on.
func (u *Unit) EndDelegatorTask(turn *rows.Turn, text string) {
	if turn.TaskID == "" {
		return
	}
	u.TaskEnd(u.Thread(turn.DelegatorThread), turn.TaskID, agent.TaskStatusOf(turn.Outcome), text)
}

// endChildren closes the open turns of foreground descendants and drops what
// else of them waits. A completed turn has none: all its calls have results.
func (u *Unit) endChildren(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest, closed *memory.Closed) {
	if turn.Delegations == 0 {
		return
	}
	below := r
	below.Step, below.Answer, below.NextConfig = 0, "", nil
	if r.Outcome == agent.ThreadCompleted {
		below.Outcome, below.Reason, below.Code = agent.ThreadCancelled, "", ""
	}
	below.Message = "the turn of its parent " + t.ID + " ended: " + string(r.Outcome)
	for _, id := range u.Strings(`SELECT id FROM turns WHERE delegator_thread = ? AND delegator_thread <> '' AND delegator_turn = ? AND state = 'open' AND background = 0 ORDER BY opened_at, id`, t.ID, turn.ID) {
		u.endChild(t, turn, id, below, closed)
	}
	for _, e := range u.Entries(`delegator_thread = ? AND delegator_turn = ? AND kind = 'assign' AND state = 'waiting' AND background = 0`, t.ID, turn.ID) {
		u.dropAssigned(t, e, below)
	}
	for _, e := range u.Entries(`thread_id = ? AND kind = 'child' AND state = 'waiting' AND background = 0`, t.ID) {
		u.keepChildEnd(t, turn, e)
	}
}

// keepChildEnd makes the end of a child that nobody has taken yet the result of its
// call: finished results stay, however the turn ends.
func (u *Unit) keepChildEnd(t *rows.Thread, turn *rows.Turn, e *rows.Entry) {
	if e.DelegatorTurn == turn.ID {
		if c := u.Call(turn.ID, e.CallID); !c.Status.Final() {
			u.takeChild(t, turn, c)
			return
		}
	}
	u.Drop(t, e)
	u.ChildEnded(u.Turn(e.ChildTurn))
}

// endChild closes a foreground child's turn along with its delegator's. Its end
// counts as taken.
func (u *Unit) endChild(t *rows.Thread, turn *rows.Turn, childTurn string, r memory.CloseRequest, closed *memory.Closed) {
	child := u.Turn(childTurn)
	childThread := u.Thread(child.ThreadID)
	own := memory.Closed{Outcome: r.Outcome}
	r.ThreadID, r.TurnID = childThread.ID, child.ID
	u.End(childThread, child, r, &own)
	closed.Stopped = append(closed.Stopped, memory.ThreadTurn{ThreadID: childThread.ID, TurnID: child.ID})
	closed.Stopped = append(closed.Stopped, own.Stopped...)
	u.MoveReports(childThread)
	own.Waiting = u.nextDelegator(childThread)
	u.Remember(child, own)
	e := u.ChildEntry(t, child)
	e.State, e.TakenBy = memory.EntryTaken, turn.ID
	u.Enter(t, e)
	u.AddUsageAbove(child)
	u.ChildEnded(child)
}

// dropAssigned drops work that a child has not begun.
func (u *Unit) dropAssigned(t *rows.Thread, e *rows.Entry, r memory.CloseRequest) {
	child := u.Thread(e.ThreadID)
	u.Drop(child, e)
	if child.Status == agent.ThreadPending {
		child.Status, child.Reason = r.Outcome, ""
		if r.Outcome == agent.ThreadFailed {
			child.Reason = r.Reason
		}
	}
	u.TaskEnd(t, e.TaskID, agent.TaskStatusOf(r.Outcome), r.Message)
	u.ChildNeverBegan(e, r.Outcome, r.Message)
}

// lastMessage finishes the unsaved step of a turn that ends, appends its final
// or partial message and returns that text.
func (u *Unit) lastMessage(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest) string {
	step := u.Step(turn.ID, turn.Saved+1)
	if step != nil {
		u.chargeLost(t, turn, step)
	}
	if step != nil && step.Wait != "" { // nobody waits any more
		step.Wait = ""
		u.SaveStep(step)
	}
	completed := r.Outcome == agent.ThreadCompleted
	if completed && r.Answer == "" {
		return u.storedAnswer(t, turn, step, r)
	}
	if step != nil && step.Stored {
		reply := step.ModelReply()
		switch {
		case len(reply.Calls) > 0:
			u.abortCalls(t, turn, step, r)
		case !completed:
			u.answer(t, turn, step, reply, false)
			return reply.Content
		}
	}
	if completed {
		u.givenAnswer(t, turn, r)
		return r.Answer
	}
	if step == nil || step.Stored {
		return ""
	}
	return u.partial(t, turn, step)
}

// storedAnswer appends the reply stored for the last step.
func (u *Unit) storedAnswer(t *rows.Thread, turn *rows.Turn, step *rows.Step, r memory.CloseRequest) string {
	if r.Step != 0 && r.Step != turn.Saved+1 {
		rows.Refuse(agent.CodeConflict, "turn %s cannot complete with step %d: step %d is the one not saved", turn.ID, r.Step, turn.Saved+1)
	}
	if step == nil || !step.Stored {
		rows.Refuse(agent.CodeConflict, "turn %s cannot complete: step %d has no stored reply", turn.ID, turn.Saved+1)
	}
	reply := step.ModelReply()
	if len(reply.Calls) > 0 {
		rows.Refuse(agent.CodeConflict, "turn %s cannot complete: the calls of step %d are not saved", turn.ID, turn.Saved+1)
	}
	u.answer(t, turn, step, reply, true)
	return reply.Content
}

// answer appends a reply without calls. final ones are announced by an
// assistant_message event; the text of a turn that failed after its last reply
// is kept all the same.
func (u *Unit) answer(t *rows.Thread, turn *rows.Turn, step *rows.Step, reply agent.ModelReply, final bool) {
	use := reply.Usage
	m := agent.Message{
		ID: agent.MessageID(turn.ID, step.Step.Step), Role: agent.RoleAssistant, Content: agent.Text(reply.Content),
		Reasoning: reply.Reasoning, Usage: &use, TurnID: turn.ID,
	}
	seq := u.Append(t, m)
	turn.AnswerSeq = seq
	u.stepSaved(turn, step, memory.RoundSaved{FromSeq: seq, ToSeq: seq})
	u.answered(t, turn, m, seq, final)
}

// givenAnswer appends a text that no model wrote, such as after a denial.
func (u *Unit) givenAnswer(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest) {
	number := turn.Saved + 1
	m := agent.Message{
		ID: agent.MessageID(turn.ID, number), Role: agent.RoleAssistant, Content: agent.Text(rows.Clean(r.Answer)), TurnID: turn.ID,
	}
	seq := u.Append(t, m)
	turn.AnswerSeq = seq
	turn.Steps = max(turn.Steps, number)
	if step := u.Step(turn.ID, number); step != nil {
		u.stepSaved(turn, step, memory.RoundSaved{FromSeq: seq, ToSeq: seq})
	}
	u.answered(t, turn, m, seq, true)
}

func (u *Unit) answered(t *rows.Thread, turn *rows.Turn, m agent.Message, seq int64, final bool) {
	if final {
		u.Event(t, turn.ID, agent.EventAssistantMessage, rows.AssistantMessageEvent{MessageID: m.ID, Content: m.Content, Usage: m.Usage})
	}
	u.Appended(t, turn.ID, seq, seq)
}

// partial appends what the current attempt of a step has streamed, once.
func (u *Unit) partial(t *rows.Thread, turn *rows.Turn, step *rows.Step) string {
	text, reasoning := rows.Streamed(u, step.TurnID, step.Step.Step)
	if text == "" {
		u.DropChunks(step)
		step.Worker = ""
		u.SaveStep(step)
		return ""
	}
	a := step.ReadAccount()
	m := agent.Message{
		ID: agent.MessageID(turn.ID, step.Step.Step), Role: agent.RoleAssistant, Content: agent.Text(text), Reasoning: reasoning,
		TurnID: turn.ID, Partial: true,
	}
	if a.Earlier.Requests > 0 {
		m.Usage = &a.Earlier
	}
	seq := u.Append(t, m)
	turn.AnswerSeq = seq
	u.stepSaved(turn, step, memory.RoundSaved{FromSeq: seq, ToSeq: seq})
	u.Appended(t, turn.ID, seq, seq)
	return text
}

// abortCalls gives every unfinished call of a step a result and appends the round.
func (u *Unit) abortCalls(t *rows.Thread, turn *rows.Turn, step *rows.Step, r memory.CloseRequest) {
	calls := u.Calls(turn.ID, step.Step.Step)
	for _, c := range calls {
		if c.Status.Final() {
			continue
		}
		e := Ending{Status: agent.CallAborted, Reason: agent.ErrAborted, Text: agent.StoppedText(r.Outcome, r.Reason)}
		if c.SubAgentThreadID != "" {
			e.Text = u.stoppedChild(c, e.Text)
		}
		// A tool that was killed with its worker may have taken effect. One that
		// was stopped by a cancel had to stop.
		if r.Reason == agent.ReasonTerminated && c.Status == agent.CallRunning && !c.Repeatable && !c.Delegation {
			e = Ending{Status: agent.CallUnknown, Reason: agent.ErrUnknown, Text: agent.TextUnknown}
		}
		u.Finish(t, turn, c, e)
	}
	u.saveRound(t, turn, step, calls)
}

// stoppedChild is the result of a delegation that was aborted: how far the
// sub-agent came, and its id, so that it can be resumed.
func (u *Unit) stoppedChild(c *rows.Call, why string) string {
	child := u.FindTurn(c.ChildTurn)
	if child == nil {
		return why + "\n\n" + agent.DelegationResultFormatter{}.Unstarted(c.SubAgentID, c.SubAgentThreadID)
	}
	return why + "\n\n" + agent.DelegationResultFormatter{}.Result(u.Outcome(child))
}

package rules

import (
	"cmp"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

const (
	outcomeAnswered = string(memory.QuestionAnswered)
	// taskLength is how much of its task is shown with what a sub-agent asks.
	taskLength = 200
)

// Ask finds one ask; nil if there is none.
func (u *Unit) Ask(where string, args ...any) (*rows.Ask, error) {
	found, err := rows.Asks(u, where, args...)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// askOf finds what a person settles, named by its id or by a call.
func (u *Unit) askOf(kind, target, userID string) (*rows.Ask, *rows.Thread, error) {
	a, err := u.Ask(`kind = ? AND (id = ? OR id = ? OR id = (SELECT approval_id FROM tool_calls WHERE id = ? AND approval_id <> ''))`,
		kind, target, rows.QuestionID(target), target)
	if err != nil {
		return nil, nil, err
	}
	if a == nil || userID != "" && a.User != userID {
		waits := map[string]string{rows.AskApproval: "an approval nor a call that waits for one", rows.AskQuestion: "a question nor a call that asks one"}
		return nil, nil, agent.Errorf(agent.CodeNotFound, "%q is neither %s", target, waits[kind])
	}
	return u.lockAsk(a)
}

// lockAsk loads an ask's thread, and the ask once more: on a server with row
// locks somebody may have settled it while this transaction waited for the tree.
func (u *Unit) lockAsk(a *rows.Ask) (*rows.Ask, *rows.Thread, error) {
	t, err := u.Thread(a.Thread)
	if err != nil {
		return nil, nil, err
	}
	a, err = u.Ask(`id = ?`, a.ID)
	return a, t, err
}

// newAsk is what a turn asks, not stored yet.
func (u *Unit) newAsk(t *rows.Thread, turn *rows.Turn, kind, id string, step int) (*rows.Ask, error) {
	if err := turn.Cancelled(); err != nil {
		return nil, err
	}
	name, err := u.agentName(t)
	if err != nil {
		return nil, err
	}
	task, err := u.instruction(turn.TaskID)
	return &rows.Ask{
		ID: id, Kind: kind, Thread: t.ID, Root: t.RootThreadID, User: t.UserID, Turn: turn.ID, Step: step,
		Agent: name, TaskID: turn.TaskID, Task: task, CreatedMs: t.At,
	}, err
}

// openAsk stores an ask and lets its turn wait.
func (u *Unit) openAsk(t *rows.Thread, turn *rows.Turn, a *rows.Ask, event string, data any) error {
	if err := u.Exec(rows.InsertAsk, rows.Values(a.Targets())...); err != nil {
		return err
	}
	if err := u.waits(t, turn); err != nil {
		return err
	}
	return u.surface(t, turn, event, data)
}

// callWaits stores a call that waits for a person, and lets its task wait.
func (u *Unit) callWaits(t *rows.Thread, c *rows.Call) error {
	if err := u.SaveCall(t, c); err != nil {
		return err
	}
	return u.TaskStatus(t, c.TaskID, agent.TaskWaiting)
}

// settleAsk stores how an ask ended and lets its turn go on, unless that waits for
// something else.
func (u *Unit) settleAsk(t *rows.Thread, turn *rows.Turn, a *rows.Ask) error {
	if err := u.countWaiting(t, turn); err != nil {
		return err
	}
	a.SettledMs = t.At
	err := u.Exec(`UPDATE asks SET outcome = ?, named = ?, approved = ?, answer = ?, message_id = ?, settled_by = ?, settled_at = ? WHERE id = ?`,
		a.Outcome, a.Named, a.Approved, a.Answer, a.Message, a.By, a.SettledMs, a.ID)
	if err != nil {
		return err
	}
	if err := u.waits(t, turn); err != nil {
		return err
	}
	if a.Kind == rows.AskQuestion {
		return u.surface(t, turn, agent.EventQuestionAnswered, rows.QuestionAnswered{
			QuestionID: a.ID, AnsweredBy: a.By, State: a.Outcome, Agent: a.Agent, Answer: rows.Short(a.Answer, rows.MaxEventResult), ThreadID: t.ID,
		})
	}
	response := rows.ApprovalResponse{ApprovalID: a.ID, Decision: a.Outcome, EditInstruction: a.Answer, ThreadID: t.ID}
	if err := rows.Decode(a.Approved, &response.ApprovedCalls); err != nil {
		return err
	}
	return u.surface(t, turn, agent.EventApprovalResponse, response)
}

// abortAsks settles what a turn that ends still asks.
func (u *Unit) abortAsks(t *rows.Thread, turn *rows.Turn) error {
	if t.Status != agent.ThreadWaitingForApproval && t.Status != agent.ThreadWaitingForUser {
		return nil
	}
	open, err := rows.Asks(u, `turn_id = ? AND outcome = ''`, turn.ID)
	if err != nil {
		return err
	}
	for _, a := range open {
		a.Outcome = rows.OutcomeAborted
		if err := u.settleAsk(t, turn, a); err != nil {
			return err
		}
	}
	return nil
}

// agentName is who asks, as a person reads it.
func (u *Unit) agentName(t *rows.Thread) (string, error) {
	if t.AgentType != "" {
		return t.AgentType, nil
	}
	c, err := u.Store.Config(u, t.ConfigHash)
	return cmp.Or(c.Name, "orchestrator"), err
}

// instruction is what a task is about, in a line; empty for no task.
func (u *Unit) instruction(taskID string) (string, error) {
	var text string
	if taskID == "" {
		return "", nil
	}
	err := u.Row(`SELECT instruction FROM tasks WHERE id = ?`, taskID).Scan(&text)
	if rows.NoRows(err) {
		return "", nil
	}
	return line(text, taskLength), err
}

// line is a text in one line of at most n characters.
func line(text string, n int) string { return rows.Short(strings.Join(strings.Fields(text), " "), n) }

// surface writes an event on a thread, and on its root too: that is where people look.
func (u *Unit) surface(t *rows.Thread, turn *rows.Turn, typ string, data any) error {
	if err := u.Event(t, turn.ID, typ, data); err != nil || t.RootThreadID == t.ID {
		return err
	}
	root, err := u.Thread(t.RootThreadID)
	if err != nil {
		return err
	}
	return u.Event(root, root.OpenTurnID, typ, data)
}

// waits makes the state of a thread, and of the task it works on, what its turn
// waits for: a decision, an answer, or nobody.
func (u *Unit) waits(t *rows.Thread, turn *rows.Turn) error {
	status, err := WaitsFor(u, turn.ID)
	if err != nil || status == t.Status {
		return err
	}
	t.Status = status
	t.Touch()
	return u.DelegatorTask(turn, agent.TaskStatusOf(status))
}

// WaitsFor is the state of a thread whose open turn is this one. An approval comes
// first, as its name does.
func WaitsFor(q rows.Rower, turnID string) (agent.ThreadStatus, error) {
	var kind string
	err := q.Row(`SELECT COALESCE(MIN(kind), '') FROM asks WHERE turn_id = ? AND outcome = ''`, turnID).Scan(&kind)
	switch kind {
	case rows.AskApproval:
		return agent.ThreadWaitingForApproval, err
	case rows.AskQuestion:
		return agent.ThreadWaitingForUser, err
	}
	return agent.ThreadRunning, err
}

// countWaiting adds to a turn the time it has waited for people since something
// was settled last. What was waited for at the same time counts once.
func (u *Unit) countWaiting(t *rows.Thread, turn *rows.Turn) error {
	var since, last int64
	err := u.Row(`SELECT COALESCE(MIN(CASE WHEN outcome = '' THEN created_at END), 0), COALESCE(MAX(settled_at), 0) FROM asks WHERE turn_id = ?`, turn.ID).
		Scan(&since, &last)
	if err != nil || since == 0 {
		return err
	}
	turn.WaitedMs += max(0, t.At-max(since, last))
	turn.Dirty = true
	return nil
}

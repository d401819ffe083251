package sqlstore

import (
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	askColumns = `id,kind,thread_id,root_id,user_id,turn_id,step,call_id,agent,task_id,task,body,outcome,named,approved,answer,message_id,settled_by,settled_at,created_at`
	selectAsk  = `SELECT ` + askColumns + ` FROM asks`
	orderAsks  = ` ORDER BY created_at, id`

	askApproval = "approval" // a decision on calls
	askQuestion = "question" // an answer to ask_user

	outcomeAnswered = string(memory.QuestionAnswered)
	// outcomeAborted settles what a turn still asks when it ends.
	outcomeAborted = string(memory.QuestionAborted)
	// taskLength is how much of its task is shown with what a sub-agent asks.
	taskLength = 200
)

var insertAsk = insertSQL("asks", askColumns)

// askRow is what an agent asks a person. The first who settles it wins.
type askRow struct {
	id, kind, thread, root, user, turn string
	step                               int
	call                               string // of a question; the calls of an approval name it
	agent, taskID, task, text          string
	outcome                            string // empty while it is open
	named, approved                    string // JSON: call ids
	answer                             string // of a question, or the instruction of an edit
	message                            string // the one that answered, if one did
	by                                 string
	settled, created                   int64
}

// targets are the columns, to read and to write them.
func (a *askRow) targets() []any {
	return []any{&a.id, &a.kind, &a.thread, &a.root, &a.user, &a.turn, &a.step, &a.call, &a.agent, &a.taskID, &a.task, &a.text,
		&a.outcome, &a.named, &a.approved, &a.answer, &a.message, &a.by, &a.settled, &a.created}
}

func (a *askRow) approval() (memory.Approval, error) {
	v := memory.Approval{
		ID: a.id, ThreadID: a.thread, RootThread: a.root, TurnID: a.turn, Step: a.step, Agent: a.agent, Decision: a.outcome,
		DecidedBy: a.by, DecidedAt: stampOrNil(a.settled), CreatedAt: stamp(a.created), Instruction: a.answer,
	}
	return v, decode(a.approved, &v.Approved)
}

func (a *askRow) question() memory.Question {
	return memory.Question{
		ID: a.id, ThreadID: a.thread, RootThread: a.root, TurnID: a.turn, Step: a.step, CallID: a.call, Agent: a.agent,
		TaskID: a.taskID, Task: a.task, Text: a.text, State: memory.QuestionState(or(a.outcome, string(memory.QuestionOpen))),
		Answer: a.answer, MessageID: a.message, AnsweredBy: a.by, AnsweredAt: stampOrNil(a.settled), CreatedAt: stamp(a.created),
	}
}

// settledAlready is why nobody can settle it any more.
func (a *askRow) settledAlready() error {
	at := stamp(a.settled).Format(time.RFC3339)
	switch {
	case a.outcome == outcomeAborted:
		return agent.Errorf(agent.CodeConflict, "%s %s was settled when its turn ended at %s: nothing waits for it", a.kind, a.id, at)
	case a.kind == askQuestion:
		return agent.Errorf(agent.CodeConflict, "question %s was answered already: %q by %s at %s", a.id, short(a.answer, topicLength), or(a.by, "unknown"), at)
	}
	return agent.Errorf(agent.CodeConflict, "approval %s was decided already: %s by %s at %s", a.id, a.outcome, or(a.by, "unknown"), at)
}

// asks finds asks in order of creation.
func asks(q rower, where string, args ...any) ([]*askRow, error) {
	rows, err := q.rows(selectAsk+` WHERE `+where+orderAsks, args...)
	return collect(rows, err, (*askRow).targets, func(*askRow) error { return nil })
}

// ask finds one ask; nil if there is none.
func (u *unit) ask(where string, args ...any) (*askRow, error) {
	found, err := asks(u, where, args...)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// askOf finds what a person settles, named by its id or by a call.
func (u *unit) askOf(kind, target, userID string) (*askRow, *threadRow, error) {
	a, err := u.ask(`kind = ? AND (id = ? OR id = ? OR id = (SELECT approval_id FROM tool_calls WHERE id = ? AND approval_id <> ''))`,
		kind, target, questionID(target), target)
	if err != nil {
		return nil, nil, err
	}
	if a == nil || userID != "" && a.user != userID {
		waits := map[string]string{askApproval: "an approval nor a call that waits for one", askQuestion: "a question nor a call that asks one"}
		return nil, nil, agent.Errorf(agent.CodeNotFound, "%q is neither %s", target, waits[kind])
	}
	return u.lockAsk(a)
}

// lockAsk loads an ask's thread, and the ask once more: on a server with row
// locks somebody may have settled it while this transaction waited for the tree.
func (u *unit) lockAsk(a *askRow) (*askRow, *threadRow, error) {
	t, err := u.thread(a.thread)
	if err != nil {
		return nil, nil, err
	}
	a, err = u.ask(`id = ?`, a.id)
	return a, t, err
}

// newAsk is what a turn asks, not stored yet.
func (u *unit) newAsk(t *threadRow, turn *turnRow, kind, id string, step int) (*askRow, error) {
	if err := turn.cancelled(); err != nil {
		return nil, err
	}
	name, err := u.agentName(t)
	if err != nil {
		return nil, err
	}
	task, err := u.instruction(turn.TaskID)
	return &askRow{
		id: id, kind: kind, thread: t.ID, root: t.RootThreadID, user: t.UserID, turn: turn.ID, step: step,
		agent: name, taskID: turn.TaskID, task: task, created: t.at,
	}, err
}

// openAsk stores an ask and lets its turn wait.
func (u *unit) openAsk(t *threadRow, turn *turnRow, a *askRow, event string, data any) error {
	if err := u.exec(insertAsk, a.targets()...); err != nil {
		return err
	}
	if err := u.waits(t, turn); err != nil {
		return err
	}
	return u.surface(t, turn, event, data)
}

// callWaits stores a call that waits for a person, and lets its task wait.
func (u *unit) callWaits(t *threadRow, c *callRow) error {
	if err := u.saveCall(t, c); err != nil {
		return err
	}
	return u.taskStatus(t, c.taskID, agent.TaskWaiting)
}

// settleAsk stores how an ask ended and lets its turn go on, unless that waits for
// something else.
func (u *unit) settleAsk(t *threadRow, turn *turnRow, a *askRow) error {
	if err := u.countWaiting(t, turn); err != nil {
		return err
	}
	a.settled = t.at
	err := u.exec(`UPDATE asks SET outcome = ?, named = ?, approved = ?, answer = ?, message_id = ?, settled_by = ?, settled_at = ? WHERE id = ?`,
		a.outcome, a.named, a.approved, a.answer, a.message, a.by, a.settled, a.id)
	if err != nil {
		return err
	}
	if err := u.waits(t, turn); err != nil {
		return err
	}
	if a.kind == askQuestion {
		return u.surface(t, turn, agent.EventQuestionAnswered, questionAnswered{
			QuestionID: a.id, AnsweredBy: a.by, State: a.outcome, Agent: a.agent, Answer: short(a.answer, eventResult), ThreadID: t.ID,
		})
	}
	response := approvalResponse{ApprovalID: a.id, Decision: a.outcome, EditInstruction: a.answer, ThreadID: t.ID}
	if err := decode(a.approved, &response.ApprovedCalls); err != nil {
		return err
	}
	return u.surface(t, turn, agent.EventApprovalResponse, response)
}

// abortAsks settles what a turn that ends still asks.
func (u *unit) abortAsks(t *threadRow, turn *turnRow) error {
	if t.Status != agent.ThreadWaitingForApproval && t.Status != agent.ThreadWaitingForUser {
		return nil
	}
	open, err := asks(u, `turn_id = ? AND outcome = ''`, turn.ID)
	if err != nil {
		return err
	}
	for _, a := range open {
		a.outcome = outcomeAborted
		if err := u.settleAsk(t, turn, a); err != nil {
			return err
		}
	}
	return nil
}

// agentName is who asks, as a person reads it.
func (u *unit) agentName(t *threadRow) (string, error) {
	if t.AgentType != "" {
		return t.AgentType, nil
	}
	c, err := u.s.config(u, t.configHash)
	return or(c.Name, "orchestrator"), err
}

// instruction is what a task is about, in a line; empty for no task.
func (u *unit) instruction(taskID string) (string, error) {
	var text string
	if taskID == "" {
		return "", nil
	}
	err := u.row(`SELECT instruction FROM tasks WHERE id = ?`, taskID).Scan(&text)
	if noRows(err) {
		return "", nil
	}
	return line(text, taskLength), err
}

// line is a text in one line of at most n characters.
func line(text string, n int) string { return short(strings.Join(strings.Fields(text), " "), n) }

// surface writes an event on a thread, and on its root too: that is where people look.
func (u *unit) surface(t *threadRow, turn *turnRow, typ string, data any) error {
	if err := u.event(t, turn.ID, typ, data); err != nil || t.RootThreadID == t.ID {
		return err
	}
	root, err := u.thread(t.RootThreadID)
	if err != nil {
		return err
	}
	return u.event(root, root.OpenTurnID, typ, data)
}

// waits makes the state of a thread, and of the task it works on, what its turn
// waits for: a decision, an answer, or nobody.
func (u *unit) waits(t *threadRow, turn *turnRow) error {
	status, err := waitsFor(u, turn.ID)
	if err != nil || status == t.Status {
		return err
	}
	t.Status = status
	t.touch()
	return u.delegatorTask(turn, agent.TaskStatusOf(status))
}

// waitsFor is the state of a thread whose open turn is this one. An approval comes
// first, as its name does.
func waitsFor(q rower, turnID string) (agent.ThreadStatus, error) {
	var kind string
	err := q.row(`SELECT COALESCE(MIN(kind), '') FROM asks WHERE turn_id = ? AND outcome = ''`, turnID).Scan(&kind)
	switch kind {
	case askApproval:
		return agent.ThreadWaitingForApproval, err
	case askQuestion:
		return agent.ThreadWaitingForUser, err
	}
	return agent.ThreadRunning, err
}

// countWaiting adds to a turn the time it has waited for people since something
// was settled last. What was waited for at the same time counts once.
func (u *unit) countWaiting(t *threadRow, turn *turnRow) error {
	var since, last int64
	err := u.row(`SELECT COALESCE(MIN(CASE WHEN outcome = '' THEN created_at END), 0), COALESCE(MAX(settled_at), 0) FROM asks WHERE turn_id = ?`, turn.ID).
		Scan(&since, &last)
	if err != nil || since == 0 {
		return err
	}
	turn.WaitedMs += max(0, t.at-max(since, last))
	turn.dirty = true
	return nil
}

// peopleFilter is the condition of a list of what a person's threads ask or wait for.
func peopleFilter(userID, threadID, root string, more ...string) (where string, args []any) {
	conditions := append([]string{"1 = 1"}, more...)
	for _, c := range [][2]string{{userID, "user_id = ?"}, {threadID, "thread_id = ?"}, {root, "root_id = ?"}} {
		if c[0] != "" {
			conditions, args = append(conditions, c[1]), append(args, c[0])
		}
	}
	return strings.Join(conditions, " AND "), args
}

// listAsks lists asks of a kind in order of creation.
func listAsks[V any](ctx context.Context, s *Store, kind string, f memory.AskFilter, view func(*reader, *askRow) (V, error)) (views []V, err error) {
	where, args := peopleFilter(f.UserID, f.ThreadID, f.RootThread, "kind = '"+kind+"'")
	if f.OpenOnly {
		where += " AND outcome = ''"
	}
	if f.ID != "" {
		where, args = where+" AND (id = ? OR id = ?)", append(args, f.ID, questionID(f.ID))
	}
	err = s.read(ctx, func(q *reader) error {
		views, err = list(q, "", (*askRow).targets, func(a *askRow) (V, error) { return view(q, a) }, selectAsk+` WHERE `+where+orderAsks, args...)
		return err
	})
	return views, err
}

// Approvals lists approvals in order of creation.
func (s *Store) Approvals(ctx context.Context, f memory.ApprovalFilter) ([]memory.Approval, error) {
	return listAsks(ctx, s, askApproval, f, func(q *reader, a *askRow) (v memory.Approval, err error) {
		if v, err = a.approval(); err == nil {
			v.ToolCalls, err = list(q, "", (*callRow).targets, viewCall, selectCall+` WHERE turn_id = ? AND step = ? AND approval_id = ? ORDER BY idx`, a.turn, a.step, a.id)
		}
		return v, err
	})
}

// Questions lists questions in order of creation.
func (s *Store) Questions(ctx context.Context, f memory.QuestionFilter) ([]memory.Question, error) {
	return listAsks(ctx, s, askQuestion, f, func(_ *reader, a *askRow) (memory.Question, error) { return a.question(), nil })
}

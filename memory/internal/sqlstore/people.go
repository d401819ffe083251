package sqlstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

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

// waitsFor is the state of a thread whose open turn is this one.
func waitsFor(q rower, turnID string) (agent.ThreadStatus, error) {
	var approvals, questions int
	err := q.row(`SELECT (SELECT COUNT(*) FROM approvals WHERE turn_id = ? AND decision = ''), (SELECT COUNT(*) FROM questions WHERE turn_id = ? AND state = 'open')`,
		turnID, turnID).Scan(&approvals, &questions)
	switch {
	case approvals > 0:
		return agent.ThreadWaitingForApproval, err
	case questions > 0:
		return agent.ThreadWaitingForUser, err
	}
	return agent.ThreadRunning, err
}

// countWaiting adds to a turn the time it has waited for people since something
// was settled last. It is called before something else is. What was waited for at
// the same time counts once.
func (u *unit) countWaiting(t *threadRow, turn *turnRow) error {
	var since, last int64
	err := u.row(`SELECT COALESCE((SELECT MIN(at) FROM (SELECT created_at AS at FROM approvals WHERE turn_id = ? AND decision = ''`+
		` UNION ALL SELECT created_at FROM questions WHERE turn_id = ? AND state = 'open') AS o), 0),`+
		` COALESCE((SELECT MAX(at) FROM (SELECT decided_at AS at FROM approvals WHERE turn_id = ?`+
		` UNION ALL SELECT answered_at FROM questions WHERE turn_id = ?) AS s), 0)`, turn.ID, turn.ID, turn.ID, turn.ID).Scan(&since, &last)
	if err != nil || since == 0 {
		return err
	}
	turn.WaitedMs += max(0, t.at-max(since, last))
	turn.dirty = true
	return nil
}

// wanted is what the agents of a tree want from people.
type wanted struct {
	approvals []*approvalRow
	questions []*questionRow
}

func (u *unit) wanted(root string) (w wanted, err error) {
	rows, err := u.rows(selectApproval+` WHERE root_id = ? AND decision = '' ORDER BY created_at, id`, root)
	if w.approvals, err = collect(rows, err, (*approvalRow).targets, (*approvalRow).loaded); err != nil {
		return w, err
	}
	w.questions, err = u.questions(`root_id = ? AND state = 'open'`, root)
	return w, err
}

// refusal is why a plain message is refused; nil if nobody waits.
func (w wanted) refusal(threadID string) error {
	var list []string
	for _, a := range w.approvals {
		list = append(list, fmt.Sprintf("a decision on approval %s (asked by %s)", a.ID, a.Agent))
	}
	for _, q := range w.questions {
		list = append(list, fmt.Sprintf("an answer to question %s (asked by %s: %s)", q.ID, q.Agent, short(strings.Join(strings.Fields(q.Text), " "), topicLength)))
	}
	if list == nil {
		return nil
	}
	how := "decide it"
	switch {
	case len(w.approvals) == 0:
		how = "answer the questions by their ids"
	case len(list) > 1:
		how = "decide and answer them by their ids"
	}
	return agent.Errorf(agent.CodeConflict, "thread %s waits for %s: %s, or send with --when-busy queue", threadID, strings.Join(list, "; "), how)
}

// asPlain treats a message whose sender made no choice while somebody in the tree
// waits for a person: it answers the only question, or is refused.
func (u *unit) asPlain(t *threadRow, r memory.SendRequest) (*memory.SendResult, error) {
	w, err := u.wanted(t.RootThreadID)
	if err != nil {
		return nil, err
	}
	text := r.Content.String()
	if len(w.approvals) > 0 || len(w.questions) != 1 || r.Agent != "" || r.Model != "" || strings.TrimSpace(text) == "" {
		return nil, w.refusal(t.ID)
	}
	if slices.ContainsFunc(r.Content.Parts, func(p agent.Part) bool { return p.ImageURL != nil }) {
		return nil, agent.Errorf(agent.CodeConflict, "thread %s waits for an answer to question %s, and an answer is text: its image would be lost; answer in words, or send the image as a message of its own with --when-busy queue", t.ID, w.questions[0].ID)
	}
	answered, err := u.answerQuestion(w.questions[0].ID, w.questions[0].ThreadID, text, or(r.UserID, t.UserID), r.MessageID)
	if err != nil {
		return nil, err
	}
	return u.answeredBy(t, answered)
}

// repeatedAnswer is the outcome of a message id that has answered a question; nil
// if it has not.
func (u *unit) repeatedAnswer(t *threadRow, r memory.SendRequest) (*memory.SendResult, error) {
	q, err := u.question(`root_id = ? AND message_id = ? AND message_id <> ''`, t.RootThreadID, r.MessageID)
	if err != nil || q == nil {
		return nil, err
	}
	if q.Answer != clean(r.Content.String()) || r.Agent != "" || r.Model != "" {
		return nil, usedID(t, r.MessageID)
	}
	return u.answeredBy(t, memory.AnswerResult{Question: q.Question, Repeated: true})
}

// answeredBy is the outcome of a message that answered a question.
func (u *unit) answeredBy(t *threadRow, a memory.AnswerResult) (*memory.SendResult, error) {
	res := &memory.SendResult{
		ThreadID: t.ID, MessageID: a.Question.MessageID, Repeated: a.Repeated, State: memory.EntryTaken, Answered: &a.Question,
	}
	for id := a.Question.TurnID; id != ""; {
		turn, err := u.turn(id)
		if err != nil {
			return nil, err
		}
		if turn.ThreadID == t.ID {
			res.TurnID = turn.ID
		}
		if turn.Background {
			break
		}
		id = turn.DelegatorTurn
	}
	return res, nil
}

func usedID(t *threadRow, id string) error {
	return agent.Errorf(agent.CodeConflict, "message id %q was used in thread %s for another message: use a new id", id, t.ID)
}

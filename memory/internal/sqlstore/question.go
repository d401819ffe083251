package sqlstore

import (
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	questionColumns = `id,thread_id,root_id,user_id,turn_id,step,call_id,agent,task_id,task,body,state,answer,message_id,answered_by,answered_at,created_at`
	selectQuestion  = `SELECT ` + questionColumns + ` FROM questions`
	// taskLength is how much of its task is shown with a sub-agent's question.
	taskLength = 200
)

var insertQuestion = insertSQL("questions", questionColumns)

// questionRow is a question with what only the store needs to know of it.
type questionRow struct {
	memory.Question
	userID   string
	answered int64
	created  int64
}

func (q *questionRow) targets() []any {
	return []any{&q.ID, &q.ThreadID, &q.RootThread, &q.userID, &q.TurnID, &q.Step, &q.CallID, &q.Agent, &q.TaskID, &q.Task, &q.Text,
		&q.State, &q.Answer, &q.MessageID, &q.AnsweredBy, &q.answered, &q.created}
}

func (q *questionRow) values() []any {
	return []any{q.ID, q.ThreadID, q.RootThread, q.userID, q.TurnID, q.Step, q.CallID, q.Agent, q.TaskID, q.Task, q.Text,
		string(q.State), q.Answer, q.MessageID, q.AnsweredBy, q.answered, q.created}
}

// loaded derives the fields that are not columns.
func (q *questionRow) loaded() error {
	q.CreatedAt, q.AnsweredAt = stamp(q.created), stampOrNil(q.answered)
	return nil
}

// questionID is the id of the one question that a call can ask.
func questionID(callID string) string { return "ques_" + strings.TrimPrefix(callID, "call_") }

// question finds a question; nil if there is none.
func (u *unit) question(where string, args ...any) (*questionRow, error) {
	q := &questionRow{}
	err := u.row(selectQuestion+` WHERE `+where, args...).Scan(q.targets()...)
	if noRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return q, q.loaded()
}

// questions finds questions in order of creation.
func (u *unit) questions(where string, args ...any) ([]*questionRow, error) {
	rows, err := u.rows(selectQuestion+` WHERE `+where+` ORDER BY created_at, id`, args...)
	return collect(rows, err, (*questionRow).targets, (*questionRow).loaded)
}

// OpenQuestion asks a person what a call asks.
func (s *Store) OpenQuestion(ctx context.Context, r memory.QuestionRequest) (asked memory.Question, err error) {
	text := clean(r.Text)
	if strings.TrimSpace(text) == "" {
		return asked, agent.Errorf(agent.CodeInvalid, "the question of call %s is empty", r.CallID)
	}
	err = s.write(ctx, "question", func(u *unit) error {
		t, turn, err := u.open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		c, err := u.call(turn.ID, r.CallID)
		if err != nil {
			return err
		}
		q, err := u.question(`id = ?`, questionID(c.ID))
		if err == nil && q == nil {
			q, err = u.openQuestion(t, turn, c, text)
		}
		if err == nil {
			asked = q.Question
		}
		return err
	})
	return asked, err
}

func (u *unit) openQuestion(t *threadRow, turn *turnRow, c *callRow, text string) (*questionRow, error) {
	if err := turn.cancelled(); err != nil {
		return nil, err
	}
	// An earlier build may have begun the call as a tool that it does not have.
	begun := c.Status == agent.CallRunning && !c.asks()
	if c.ToolName != agent.ToolAskUser || c.Status != agent.CallPending && !begun || c.Gate == agent.GateAsk {
		return nil, agent.Errorf(agent.CodeConflict, "call %s (%s, %s) is no question that could be asked", c.ID, c.ToolName, c.Status)
	}
	name, err := u.agentName(t)
	if err != nil {
		return nil, err
	}
	task, err := u.instruction(turn.TaskID)
	if err != nil {
		return nil, err
	}
	q := &questionRow{Question: memory.Question{
		ID: questionID(c.ID), ThreadID: t.ID, RootThread: t.RootThreadID, TurnID: turn.ID, Step: c.Step, CallID: c.ID,
		Agent: name, TaskID: turn.TaskID, Task: task, Text: text, State: memory.QuestionOpen,
	}, userID: t.UserID, created: t.at}
	if err := u.exec(insertQuestion, q.values()...); err != nil {
		return nil, err
	}
	// Nothing is lost with a process while a person thinks.
	c.Status, c.repeatable, c.fence.Fence, c.worker = agent.CallRunning, true, memory.Fence{}, ""
	c.Attempts++
	if err := u.saveCall(t, c); err != nil {
		return nil, err
	}
	if err := u.taskStatus(t, c.taskID, agent.TaskWaiting); err != nil {
		return nil, err
	}
	if err := u.waits(t, turn); err != nil {
		return nil, err
	}
	err = u.surface(t, turn, agent.EventQuestionAsked, questionAsked{
		QuestionID: q.ID, Agent: q.Agent, Text: q.Text, TaskID: q.TaskID, Task: q.Task, ToolCallID: c.ID, ThreadID: t.ID,
	})
	if err != nil {
		return nil, err
	}
	return q, q.loaded()
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
	return short(strings.Join(strings.Fields(text), " "), taskLength), err
}

// Answer answers a question; the first answer wins.
func (s *Store) Answer(ctx context.Context, r memory.AnswerRequest) (res memory.AnswerResult, err error) {
	if strings.TrimSpace(r.Text) == "" {
		return res, agent.Errorf(agent.CodeInvalid, "the answer to %q is empty", r.Target)
	}
	err = s.write(ctx, "answer", func(u *unit) error {
		q, err := u.question(`id = ? OR id = ?`, r.Target, questionID(r.Target))
		if err != nil {
			return err
		}
		if q == nil || r.UserID != "" && q.userID != r.UserID {
			return agent.Errorf(agent.CodeNotFound, "%q is neither a question nor a call that asks one", r.Target)
		}
		res, err = u.answerQuestion(q.ID, q.ThreadID, r.Text, r.By, "")
		return err
	})
	return res, err
}

// answerQuestion makes a text the result of the call that asked.
func (u *unit) answerQuestion(id, threadID, text, by, messageID string) (memory.AnswerResult, error) {
	none := memory.AnswerResult{}
	t, err := u.thread(threadID)
	if err != nil {
		return none, err
	}
	// On a server with row locks it may have been answered while this
	// transaction waited for the tree.
	q, err := u.question(`id = ?`, id)
	if err != nil {
		return none, err
	}
	text = clean(text)
	if q.State != memory.QuestionOpen {
		if q.State != memory.QuestionAnswered || q.Answer != text {
			return none, answeredAlready(q)
		}
		return memory.AnswerResult{Question: q.Question, Repeated: true}, nil
	}
	turn, err := u.turn(q.TurnID)
	if err != nil {
		return none, err
	}
	c, err := u.call(turn.ID, q.CallID)
	if err != nil {
		return none, err
	}
	if err := u.countWaiting(t, turn); err != nil {
		return none, err
	}
	q.State, q.Answer, q.AnsweredBy, q.MessageID = memory.QuestionAnswered, text, by, messageID
	if err := u.settleQuestion(t, turn, q); err != nil {
		return none, err
	}
	if err := u.waits(t, turn); err != nil {
		return none, err
	}
	err = u.finish(t, turn, c, ending{status: agent.CallSuccess, text: text, ms: t.at - q.created})
	if err != nil {
		return none, err
	}
	return memory.AnswerResult{Question: q.Question}, u.saveIfLast(t, turn, c.Step)
}

// settleQuestion writes how a question ended, and says so in the log.
func (u *unit) settleQuestion(t *threadRow, turn *turnRow, q *questionRow) error {
	q.answered = t.at
	if err := q.loaded(); err != nil {
		return err
	}
	err := u.exec(`UPDATE questions SET state = ?, answer = ?, message_id = ?, answered_by = ?, answered_at = ? WHERE id = ?`,
		string(q.State), q.Answer, q.MessageID, q.AnsweredBy, q.answered, q.ID)
	if err != nil {
		return err
	}
	return u.surface(t, turn, agent.EventQuestionAnswered, questionAnswered{
		QuestionID: q.ID, AnsweredBy: q.AnsweredBy, State: string(q.State), Agent: q.Agent, Answer: short(q.Answer, eventResult), ThreadID: t.ID,
	})
}

func answeredAlready(q *questionRow) error {
	if q.State == memory.QuestionAborted {
		return agent.Errorf(agent.CodeConflict, "question %s was settled when its turn ended at %s: nobody waits for an answer", q.ID, q.AnsweredAt.Format(time.RFC3339))
	}
	return agent.Errorf(agent.CodeConflict, "question %s was answered already: %q by %s at %s", q.ID, short(q.Answer, topicLength), or(q.AnsweredBy, "unknown"), q.AnsweredAt.Format(time.RFC3339))
}

// settleQuestions ends the open questions of a turn that ends: nobody waits for
// an answer any more.
func (u *unit) settleQuestions(t *threadRow, turn *turnRow) error {
	open, err := u.questions(`turn_id = ? AND state = ?`, turn.ID, string(memory.QuestionOpen))
	if err != nil {
		return err
	}
	for _, q := range open {
		q.State = memory.QuestionAborted
		if err := u.settleQuestion(t, turn, q); err != nil {
			return err
		}
	}
	return nil
}

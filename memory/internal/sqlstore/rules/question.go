package rules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// OpenQuestion asks a person what a call asks.
func (s *Store) OpenQuestion(ctx context.Context, r memory.QuestionRequest) (v memory.Question, err error) {
	text := rows.Clean(r.Text)
	if strings.TrimSpace(text) == "" {
		return v, agent.Errorf(agent.CodeInvalid, "the question of call %s is empty", r.CallID)
	}
	err = s.write(ctx, "question", func(u *Unit) error {
		t, turn, c, err := u.OpenCall(r.ThreadID, r.TurnID, r.CallID)
		if err != nil {
			return err
		}
		a, err := u.Ask(`id = ?`, rows.QuestionID(c.ID))
		if err == nil && a == nil {
			a, err = u.openQuestion(t, turn, c, text)
		}
		if err == nil {
			v = a.Question()
		}
		return err
	})
	return v, err
}

func (u *Unit) openQuestion(t *rows.Thread, turn *rows.Turn, c *rows.Call, text string) (*rows.Ask, error) {
	a, err := u.newAsk(t, turn, rows.AskQuestion, rows.QuestionID(c.ID), c.Step)
	if err != nil {
		return nil, err
	}
	if c.ToolName != agent.ToolAskUser || c.Status != agent.CallPending {
		return nil, agent.Errorf(agent.CodeConflict, "call %s (%s) is %s: only a pending call of ask_user is asked", c.ID, c.ToolName, c.Status)
	}
	a.Call, a.Text = c.ID, text
	// Nothing is lost with a process while a person thinks.
	c.Status, c.Repeatable, c.Fence.Fence, c.Worker = agent.CallRunning, true, memory.Fence{}, ""
	c.Attempts++
	if err := u.callWaits(t, c); err != nil {
		return nil, err
	}
	return a, u.openAsk(t, turn, a, agent.EventQuestionAsked, rows.QuestionAsked{
		QuestionID: a.ID, Agent: a.Agent, Text: a.Text, TaskID: a.TaskID, Task: a.Task, ToolCallID: c.ID, ThreadID: t.ID,
	})
}

// Answer answers a question; the first answer wins.
func (s *Store) Answer(ctx context.Context, r memory.AnswerRequest) (res memory.AnswerResult, err error) {
	if strings.TrimSpace(r.Text) == "" {
		return res, agent.Errorf(agent.CodeInvalid, "the answer to %q is empty", r.Target)
	}
	err = s.write(ctx, "answer", func(u *Unit) error {
		a, t, err := u.askOf(rows.AskQuestion, r.Target, r.UserID)
		if err == nil {
			res, err = u.answerQuestion(t, a, r.Text, r.By, "")
		}
		return err
	})
	return res, err
}

// answerQuestion makes a text the result of the call that asked.
func (u *Unit) answerQuestion(t *rows.Thread, a *rows.Ask, text, by, messageID string) (res memory.AnswerResult, err error) {
	text = rows.Clean(text)
	if a.Outcome != "" {
		if a.Outcome != outcomeAnswered || a.Answer != text {
			return res, a.SettledAlready()
		}
		return memory.AnswerResult{Question: a.Question(), Repeated: true}, nil
	}
	turn, err := u.Turn(a.Turn)
	if err != nil {
		return res, err
	}
	c, err := u.Call(turn.ID, a.Call)
	if err != nil {
		return res, err
	}
	a.Outcome, a.Answer, a.By, a.Message = outcomeAnswered, text, by, messageID
	if err := u.settleAsk(t, turn, a); err != nil {
		return res, err
	}
	err = u.Finish(t, turn, c, Ending{Status: agent.CallSuccess, Text: text, ms: t.At - a.CreatedMs})
	if err != nil {
		return res, err
	}
	_, err = u.saveIfLast(t, turn, c.Step)
	return memory.AnswerResult{Question: a.Question()}, err
}

// refusePlain is why a plain message is refused; nil if nobody asks anything.
func refusePlain(threadID string, open []*rows.Ask) error {
	var list []string
	approvals := 0
	for _, a := range open {
		if a.Kind == rows.AskApproval {
			approvals++
			list = append(list, fmt.Sprintf("a decision on approval %s (asked by %s)", a.ID, a.Agent))
			continue
		}
		list = append(list, fmt.Sprintf("an answer to question %s (asked by %s: %s)", a.ID, a.Agent, line(a.Text, rows.TopicLength)))
	}
	if list == nil {
		return nil
	}
	how := "decide it"
	switch {
	case approvals == 0:
		how = "answer the questions by their ids"
	case len(list) > 1:
		how = "decide and answer them by their ids"
	}
	return agent.Errorf(agent.CodeConflict, "thread %s waits for %s: %s, or send with --when-busy queue", threadID, strings.Join(list, "; "), how)
}

// sendPlain treats a message whose sender made no choice while somebody in the tree
// waits for a person: it answers the only question, or is refused.
func (u *Unit) sendPlain(t *rows.Thread, r memory.SendRequest) (*memory.SendResult, error) {
	open, err := rows.Asks(u, `root_id = ? AND outcome = ''`, t.RootThreadID)
	if err != nil {
		return nil, err
	}
	text := r.Content.String()
	if len(open) != 1 || open[0].Kind != rows.AskQuestion || r.Agent != "" || r.Model != "" || strings.TrimSpace(text) == "" {
		return nil, refusePlain(t.ID, open)
	}
	if slices.ContainsFunc(r.Content.Parts, func(p agent.Part) bool { return p.ImageURL != nil }) {
		return nil, agent.Errorf(agent.CodeConflict, "thread %s waits for an answer to question %s, and an answer is text: its image would be lost; answer in words, or send the image as a message of its own with --when-busy queue", t.ID, open[0].ID)
	}
	a, asking, err := u.lockAsk(open[0])
	if err != nil {
		return nil, err
	}
	answered, err := u.answerQuestion(asking, a, text, cmp.Or(r.UserID, t.UserID), r.MessageID)
	if err != nil {
		return nil, err
	}
	return u.answeredBy(t, answered)
}

// repeatedAnswer is the outcome of a message id that has answered a question; nil
// if it has not.
func (u *Unit) repeatedAnswer(t *rows.Thread, r memory.SendRequest) (*memory.SendResult, error) {
	a, err := u.Ask(`root_id = ? AND message_id = ? AND message_id <> ''`, t.RootThreadID, r.MessageID)
	if err != nil || a == nil {
		return nil, err
	}
	if a.Answer != rows.Clean(r.Content.String()) || r.Agent != "" || r.Model != "" {
		return nil, usedID(t, r.MessageID)
	}
	return u.answeredBy(t, memory.AnswerResult{Question: a.Question(), Repeated: true})
}

// answeredBy is the outcome of a message that answered a question.
func (u *Unit) answeredBy(t *rows.Thread, a memory.AnswerResult) (*memory.SendResult, error) {
	res := &memory.SendResult{
		ThreadID: t.ID, MessageID: a.Question.MessageID, Repeated: a.Repeated, State: memory.EntryTaken, Answered: &a.Question,
	}
	for id := a.Question.TurnID; id != ""; {
		turn, err := u.Turn(id)
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

func usedID(t *rows.Thread, id string) error {
	return agent.Errorf(agent.CodeConflict, "message id %q was used in thread %s for another message: use a new id", id, t.ID)
}

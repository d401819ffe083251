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
	return writing(ctx, s, "question", func(u *Unit) memory.Question {
		t, turn, c := u.OpenCall(r.ThreadID, r.TurnID, r.CallID)
		a := u.Ask(`id = ?`, rows.QuestionID(c.ID))
		if a == nil {
			a = u.openQuestion(t, turn, c, text, r.Options)
		}
		return a.Question()
	})
}

func (u *Unit) openQuestion(t *rows.Thread, turn *rows.Turn, c *rows.Call, text string, options []string) *rows.Ask {
	a := u.newAsk(t, turn, rows.AskQuestion, rows.QuestionID(c.ID), c.Step)
	if c.ToolName != agent.ToolAskUser || c.Status != agent.CallPending {
		rows.Refuse(agent.CodeConflict, "call %s (%s) is %s: only a pending call of ask_user is asked", c.ID, c.ToolName, c.Status)
	}
	a.Call, a.Text = c.ID, text
	for i := range options {
		options[i] = rows.Clean(options[i])
	}
	if len(options) > 0 {
		a.Named = rows.Must(rows.Encode(options))
	}
	// Nothing is lost with a process while a person thinks.
	c.Status, c.Repeatable, c.Fence.Fence, c.Worker = agent.CallRunning, true, memory.Fence{}, ""
	c.Attempts++
	u.callWaits(t, c)
	u.openAsk(t, turn, a, agent.EventQuestionAsked, rows.QuestionAsked{
		QuestionID: a.ID, Agent: a.Agent, Text: a.Text, Options: a.Options(), TaskID: a.TaskID, Task: a.Task, ToolCallID: c.ID, ThreadID: t.ID,
	})
	return a
}

// Answer answers a question; the first answer wins.
func (s *Store) Answer(ctx context.Context, r memory.AnswerRequest) (res memory.AnswerResult, err error) {
	if strings.TrimSpace(r.Text) == "" {
		return res, agent.Errorf(agent.CodeInvalid, "the answer to %q is empty", r.Target)
	}
	return writing(ctx, s, "answer", func(u *Unit) memory.AnswerResult {
		a, t := u.askOf(rows.AskQuestion, r.Target, r.UserID)
		return u.answerQuestion(t, a, r.Text, r.By, "")
	})
}

// answerQuestion makes a text the result of the call that asked.
func (u *Unit) answerQuestion(t *rows.Thread, a *rows.Ask, text, by, messageID string) memory.AnswerResult {
	text = a.Chosen(text)
	if a.Outcome != "" {
		if a.Outcome != outcomeAnswered || a.Answer != text {
			rows.Check(a.SettledAlready())
		}
		return memory.AnswerResult{Question: a.Question(), Repeated: true}
	}
	turn := u.Turn(a.Turn)
	c := u.Call(turn.ID, a.Call)
	a.Outcome, a.Answer, a.By, a.Message = outcomeAnswered, text, by, messageID
	u.settleAsk(t, turn, a)
	u.Finish(t, turn, c, Ending{Status: agent.CallSuccess, Text: text, ms: t.At - a.CreatedMs})
	u.saveIfLast(t, turn, c.Step)
	return memory.AnswerResult{Question: a.Question()}
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
func (u *Unit) sendPlain(t *rows.Thread, r memory.SendRequest) *memory.SendResult {
	open := rows.Asks(u, `root_id = ? AND outcome = ''`, t.RootThreadID)
	text := r.Content.String()
	if len(open) != 1 || open[0].Kind != rows.AskQuestion || r.Agent != "" || r.Model != "" || strings.TrimSpace(text) == "" {
		rows.Check(refusePlain(t.ID, open))
		return nil
	}
	if slices.ContainsFunc(r.Content.Parts, func(p agent.Part) bool { return p.ImageURL != nil }) {
		rows.Refuse(agent.CodeConflict, "thread %s waits for an answer to question %s, and an answer is text: its image would be lost; answer in words, or send the image as a message of its own with --when-busy queue", t.ID, open[0].ID)
	}
	a, asking := u.lockAsk(open[0])
	return u.answeredBy(t, u.answerQuestion(asking, a, text, cmp.Or(r.UserID, t.UserID), r.MessageID))
}

// repeatedAnswer is the outcome of a message id that has answered a question; nil
// if it has not.
func (u *Unit) repeatedAnswer(t *rows.Thread, r memory.SendRequest) *memory.SendResult {
	a := u.Ask(`root_id = ? AND message_id = ? AND message_id <> ''`, t.RootThreadID, r.MessageID)
	if a == nil {
		return nil
	}
	if a.Answer != a.Chosen(r.Content.String()) || r.Agent != "" || r.Model != "" {
		rows.Check(usedID(t, r.MessageID))
	}
	return u.answeredBy(t, memory.AnswerResult{Question: a.Question(), Repeated: true})
}

// answeredBy is the outcome of a message that answered a question.
func (u *Unit) answeredBy(t *rows.Thread, a memory.AnswerResult) *memory.SendResult {
	res := &memory.SendResult{
		ThreadID: t.ID, MessageID: a.Question.MessageID, Repeated: a.Repeated, State: memory.EntryTaken, Answered: &a.Question,
	}
	for id := a.Question.TurnID; id != ""; {
		turn := u.Turn(id)
		if turn.ThreadID == t.ID {
			res.TurnID = turn.ID
		}
		if turn.Background {
			break
		}
		id = turn.DelegatorTurn
	}
	return res
}

func usedID(t *rows.Thread, id string) error {
	return agent.Errorf(agent.CodeConflict, "message id %q was used in thread %s for another message: use a new id", id, t.ID)
}

package spool

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// QuestionRequest is an open question of an agent to a person.
type QuestionRequest struct {
	QuestionID string `json:"questionId"`
	ThreadID   string `json:"threadId"`
	RootThread string `json:"rootThreadId"`
	ToolCallID string `json:"toolCallId"`
	Agent      string `json:"agent"`
	// TaskID and Task are what a sub-agent works on.
	TaskID string `json:"taskId,omitempty"`
	Task   string `json:"task,omitempty"`
	Text   string `json:"text"`
}

func questionRequest(q memory.Question) QuestionRequest {
	return QuestionRequest{QuestionID: q.ID, ThreadID: q.ThreadID, RootThread: q.RootThread, ToolCallID: q.CallID, Agent: q.Agent, TaskID: q.TaskID, Task: q.Task, Text: q.Text}
}

// Questions lists open questions, newest last: all of the user's, or those of the
// tree that threadID belongs to.
func (c *Client) Questions(ctx context.Context, threadID string) ([]QuestionRequest, error) {
	f := memory.QuestionFilter{UserID: c.o.UserID, OpenOnly: true}
	var err error
	if f.ThreadID, f.RootThread, err = c.scope(ctx, threadID); err != nil {
		return nil, err
	}
	open, err := c.store.Questions(ctx, f)
	if err != nil {
		return nil, err
	}
	out, seen := []QuestionRequest{}, map[string]bool{}
	for _, q := range open {
		mine, err := c.seesRoot(ctx, threadID, q.RootThread, seen)
		if err != nil {
			return nil, err
		}
		if mine {
			out = append(out, questionRequest(q))
		}
	}
	return out, nil
}

// scope is what a list of what waits for people is about: a tree, a sub-agent's
// thread, or everything.
func (c *Client) scope(ctx context.Context, threadID string) (thread, root string, err error) {
	if threadID == "" {
		return "", "", nil
	}
	t, err := c.thread(ctx, threadID)
	if t.Kind == agent.KindMain {
		return "", t.ID, err
	}
	return t.ID, "", err
}

// seesRoot reports whether a tree found in a list of everything is in this
// client's profile; seen keeps what was found out.
func (c *Client) seesRoot(ctx context.Context, asked, root string, seen map[string]bool) (bool, error) {
	if asked != "" {
		return true, nil
	}
	if _, known := seen[root]; !known {
		_, err := c.thread(ctx, root)
		if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
			return false, err
		}
		seen[root] = err == nil
	}
	return seen[root], nil
}

// Answered is the outcome of an answer.
type Answered struct {
	Question memory.Question `json:"question"`
	// Repeated means that the same answer had been given before.
	Repeated bool   `json:"repeated,omitempty"`
	Note     string `json:"note,omitempty"`
	// Stored means that Temporal could not be told: the answer takes effect when
	// a worker finds it.
	Stored bool `json:"stored,omitempty"`
}

// Answer answers a question, named by its id or by the call that asks it. The
// first answer wins; the same one again returns the first outcome, another is
// CodeConflict saying who answered and when.
func (c *Client) Answer(ctx context.Context, r memory.AnswerRequest) (Answered, error) {
	if r.UserID == "" {
		r.UserID = c.o.UserID
	}
	if r.By == "" {
		r.By = r.UserID
	}
	if err := c.mayAnswer(ctx, r.Target); err != nil {
		return Answered{}, err
	}
	res, err := c.store.Answer(ctx, r)
	if err != nil {
		return Answered{}, err
	}
	out := Answered{Question: res.Question, Repeated: res.Repeated}
	if err := c.tellWaiting(ctx, res.Question.ThreadID); err != nil {
		out.Stored = true
		out.Note = "the answer is saved, but Temporal could not be told: " + err.Error() + "; a worker acts on it when it is back"
	}
	return out, nil
}

// mayAnswer refuses questions of the user's other profiles as not found. Those of
// other users the store refuses.
func (c *Client) mayAnswer(ctx context.Context, target string) error {
	if c.o.UserID == "" {
		return nil
	}
	found, err := c.store.Questions(ctx, memory.QuestionFilter{UserID: c.o.UserID, ID: target})
	if err != nil {
		return err
	}
	for _, q := range found {
		if _, err := c.thread(ctx, q.ThreadID); err != nil {
			return err
		}
	}
	return nil // the store says that there is none
}

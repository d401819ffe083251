package view

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// ApprovalRequest is an open question to a person about tool calls.
type ApprovalRequest struct {
	ApprovalID string         `json:"approvalId"`
	ThreadID   string         `json:"threadId"`
	RootThread string         `json:"rootThreadId"`
	Agent      string         `json:"agent"`
	ToolCalls  []ApprovalCall `json:"toolCalls"`
	CreatedAt  time.Time      `json:"createdAt"`
	// Topic is the conversation's, Task what a sub-agent works on, Workdir the folder in
	// which the calls run. They are told by Approvals only.
	Topic   string `json:"topic,omitempty"`
	Task    string `json:"task,omitempty"`
	Workdir string `json:"workdir,omitempty"`
}

// ApprovalCall is one of the calls an approval is about. Its arguments are JSON; what
// a model got wrong stands there as a text.
type ApprovalCall struct {
	ID       string          `json:"id"`
	ToolName string          `json:"toolName"`
	Args     json.RawMessage `json:"args"`
	// Limit bounds what a user of a web server may do with it: "once" = approve it, but
	// not all to come; "administrator" = deny it. Empty = nothing is bound.
	Limit string `json:"limit,omitempty"`
	// Like is the rule that allows calls like it, see agent.NarrowRule; empty if there is
	// none. Told as Limit is.
	Like string `json:"like,omitempty"`
}

func approvalRequest(a memory.Approval) ApprovalRequest {
	out := ApprovalRequest{ApprovalID: a.ID, ThreadID: a.ThreadID, RootThread: a.RootThread, Agent: a.Agent, ToolCalls: []ApprovalCall{}, CreatedAt: a.CreatedAt}
	for _, call := range a.ToolCalls {
		args := call.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		} else if !json.Valid(args) {
			args, _ = json.Marshal(string(args)) // a text always can be
		}
		out.ToolCalls = append(out.ToolCalls, ApprovalCall{ID: call.ID, ToolName: call.ToolName, Args: args})
	}
	return out
}

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
	// Topic is the conversation's; it is told by Questions only.
	Topic     string    `json:"topic,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// RequestOf shows a question.
func RequestOf(q memory.Question) QuestionRequest {
	return QuestionRequest{QuestionID: q.ID, ThreadID: q.ThreadID, RootThread: q.RootThread, ToolCallID: q.CallID, Agent: q.Agent, TaskID: q.TaskID, Task: q.Task, Text: q.Text, CreatedAt: q.CreatedAt}
}

// Approvals lists open approvals, newest last: all of the user's, or those of the
// tree that threadID belongs to.
func (v *Views) Approvals(ctx context.Context, threadID string) ([]ApprovalRequest, error) {
	f := memory.ApprovalFilter{UserID: v.o.UserID, OpenOnly: true}
	list, err := waiting(ctx, v, threadID, func(thread, root string) ([]memory.Approval, error) {
		f.ThreadID, f.RootThread = thread, root
		return v.store.Approvals(ctx, f)
	}, func(a memory.Approval) string { return a.RootThread }, approvalRequest)
	threads := v.threadsOnce()
	for i := range list {
		a := &list[i]
		t, err := threads(ctx, a.ThreadID)
		if err != nil {
			return nil, err
		}
		root, err := threads(ctx, a.RootThread)
		if err != nil {
			return nil, err
		}
		a.Topic, a.Workdir = root.Topic, t.Workdir
		if t.TaskID == "" {
			continue
		}
		tasks, err := v.store.TasksOf(ctx, t.ParentThreadID, []string{agent.CallOfTask(t.TaskID)})
		if err != nil {
			return nil, err
		}
		for _, task := range tasks {
			a.Task = task.Instruction
		}
	}
	return list, err
}

// threadsOnce reads each thread once, however many want to know of it. One that is not
// there is empty.
func (v *Views) threadsOnce() func(context.Context, string) (agent.Thread, error) {
	known := map[string]agent.Thread{}
	return func(ctx context.Context, id string) (agent.Thread, error) {
		if t, ok := known[id]; ok {
			return t, nil
		}
		t, err := v.Thread(ctx, id)
		known[id] = t
		return t, unlessMissing(err) // it may be deleted meanwhile
	}
}

// Decisions lists all approvals of the user, decided ones too, newest last.
func (v *Views) Decisions(ctx context.Context) ([]memory.Approval, error) {
	return waiting(ctx, v, "", func(string, string) ([]memory.Approval, error) {
		return v.store.Approvals(ctx, memory.ApprovalFilter{UserID: v.o.UserID})
	}, func(a memory.Approval) string { return a.RootThread }, func(a memory.Approval) memory.Approval { return a })
}

// Permissions lists what was allowed to agents for the rest of a session.
func (v *Views) Permissions(ctx context.Context, sessionID string) ([]memory.Permission, error) {
	return list(v.store.Permissions(ctx, v.o.UserID, sessionID))
}

// Questions lists open questions, newest last: all of the user's, or those of the
// tree that threadID belongs to.
func (v *Views) Questions(ctx context.Context, threadID string) ([]QuestionRequest, error) {
	f := memory.QuestionFilter{UserID: v.o.UserID, OpenOnly: true}
	list, err := waiting(ctx, v, threadID, func(thread, root string) ([]memory.Question, error) {
		f.ThreadID, f.RootThread = thread, root
		return v.store.Questions(ctx, f)
	}, func(q memory.Question) string { return q.RootThread }, RequestOf)
	threads := v.threadsOnce()
	for i := range list {
		root, err := threads(ctx, list[i].RootThread)
		if err != nil {
			return nil, err
		}
		list[i].Topic = root.Topic
	}
	return list, err
}

// ModelWaits lists the model calls that are not made before some time to come, as
// their provider asked for a pause or did not answer: all of the user's, or those of
// the tree that threadID belongs to. The one that is due first comes first.
func (v *Views) ModelWaits(ctx context.Context, threadID string) ([]agent.ModelWait, error) {
	f := memory.WaitFilter{UserID: v.o.UserID}
	return waiting(ctx, v, threadID, func(thread, root string) (due []agent.ModelWait, err error) {
		f.ThreadID, f.RootThread = thread, root
		all, err := v.store.ModelWaits(ctx, f)
		for _, w := range all {
			if w.Until.After(time.Now()) { // others a worker is about to make
				due = append(due, w)
			}
		}
		return due, err
	}, func(w agent.ModelWait) string { return w.RootThread }, func(w agent.ModelWait) agent.ModelWait { return w })
}

// waiting lists what stands in one tree, or a sub-agent's thread, or all trees that
// the user sees.
func waiting[T, R any](ctx context.Context, v *Views, threadID string, read func(thread, root string) ([]T, error), rootOf func(T) string, show func(T) R) ([]R, error) {
	var thread, root string
	if threadID != "" {
		t, err := v.Thread(ctx, threadID)
		if err != nil {
			return nil, err
		}
		if thread = t.ID; t.Kind == agent.KindMain {
			thread, root = "", t.ID
		}
	}
	all, err := read(thread, root)
	if err != nil {
		return nil, err
	}
	out, seen := []R{}, map[string]bool{}
	for _, one := range all {
		id := rootOf(one)
		mine, known := seen[id]
		if !known && threadID == "" {
			_, err := v.Thread(ctx, id)
			if unlessMissing(err) != nil {
				return nil, err
			}
			mine = err == nil
			seen[id] = mine
		}
		if mine || threadID != "" {
			out = append(out, show(one))
		}
	}
	return out, nil
}

package view

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
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
	// Options are answers to choose from. Another answer is one too.
	Options []string `json:"options,omitempty"`
	// Topic is the conversation's; it is told by Questions only.
	Topic     string    `json:"topic,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// RequestOf shows a question.
func RequestOf(q memory.Question) QuestionRequest {
	return QuestionRequest{QuestionID: q.ID, ThreadID: q.ThreadID, RootThread: q.RootThread, ToolCallID: q.CallID, Agent: q.Agent, TaskID: q.TaskID, Task: q.Task, Text: q.Text, Options: q.Options, CreatedAt: q.CreatedAt}
}

// Approvals lists open approvals, newest last: all of the user's, or those of the
// tree that threadID belongs to.
func (v *Views) Approvals(ctx context.Context, threadID string) ([]ApprovalRequest, error) {
	return read(ctx, v, func(r reading) []ApprovalRequest { return r.approvals(threadID) })
}

func (r reading) approvals(threadID string) []ApprovalRequest {
	list := waiting(r, threadID, func(thread, root string) ([]memory.Approval, error) {
		return r.store.Approvals(r.ctx, memory.ApprovalFilter{UserID: r.o.UserID, ThreadID: thread, RootThread: root, OpenOnly: true})
	}, func(a memory.Approval) string { return a.RootThread }, approvalRequest)
	threads := r.threadsOnce()
	for i := range list {
		a := &list[i]
		t := threads(a.ThreadID)
		a.Topic, a.Workdir = threads(a.RootThread).Topic, t.Workdir
		if t.TaskID == "" {
			continue
		}
		for _, task := range steps.Must(r.store.TasksOf(r.ctx, t.ParentThreadID, []string{agent.CallOfTask(t.TaskID)})) {
			a.Task = task.Instruction
		}
	}
	return list
}

// threadsOnce reads each thread once, however many want to know of it. One that is not
// there, as it was deleted meanwhile, is empty.
func (r reading) threadsOnce() func(id string) agent.Thread {
	known := map[string]agent.Thread{}
	return func(id string) agent.Thread {
		if _, ok := known[id]; !ok {
			known[id], _ = steps.Found(r.Thread(r.ctx, id))
		}
		return known[id]
	}
}

// Decisions lists all approvals of the user, decided ones too, newest last.
func (v *Views) Decisions(ctx context.Context) ([]memory.Approval, error) {
	return read(ctx, v, func(r reading) []memory.Approval {
		return waiting(r, "", func(string, string) ([]memory.Approval, error) {
			return r.store.Approvals(ctx, memory.ApprovalFilter{UserID: r.o.UserID})
		}, func(a memory.Approval) string { return a.RootThread }, itself)
	})
}

func itself[T any](v T) T { return v }

// Permissions lists what was allowed to agents for the rest of a session.
func (v *Views) Permissions(ctx context.Context, sessionID string) ([]memory.Permission, error) {
	return list(v.store.Permissions(ctx, v.o.UserID, sessionID))
}

// Questions lists open questions, newest last: all of the user's, or those of the
// tree that threadID belongs to.
func (v *Views) Questions(ctx context.Context, threadID string) ([]QuestionRequest, error) {
	return read(ctx, v, func(r reading) []QuestionRequest { return r.questions(threadID) })
}

func (r reading) questions(threadID string) []QuestionRequest {
	list := waiting(r, threadID, func(thread, root string) ([]memory.Question, error) {
		return r.store.Questions(r.ctx, memory.QuestionFilter{UserID: r.o.UserID, ThreadID: thread, RootThread: root, OpenOnly: true})
	}, func(q memory.Question) string { return q.RootThread }, RequestOf)
	threads := r.threadsOnce()
	for i := range list {
		list[i].Topic = threads(list[i].RootThread).Topic
	}
	return list
}

// ModelWaits lists the model calls that are not made before some time to come, as
// their provider asked for a pause or did not answer: all of the user's, or those of
// the tree that threadID belongs to. The one that is due first comes first.
func (v *Views) ModelWaits(ctx context.Context, threadID string) ([]agent.ModelWait, error) {
	return read(ctx, v, func(r reading) []agent.ModelWait { return r.modelWaits(threadID) })
}

func (r reading) modelWaits(threadID string) []agent.ModelWait {
	return waiting(r, threadID, func(thread, root string) ([]agent.ModelWait, error) {
		all, err := r.store.ModelWaits(r.ctx, memory.WaitFilter{UserID: r.o.UserID, ThreadID: thread, RootThread: root})
		now := time.Now() // others a worker is about to make
		return slices.DeleteFunc(all, func(w agent.ModelWait) bool { return !w.Until.After(now) }), err
	}, func(w agent.ModelWait) string { return w.RootThread }, itself)
}

// waiting lists what stands in one tree, or a sub-agent's thread, or all trees that
// the user sees.
func waiting[T, R any](r reading, threadID string, read func(thread, root string) ([]T, error), rootOf func(T) string, show func(T) R) []R {
	var thread, root string
	if threadID != "" {
		t := r.thread(threadID)
		if thread = t.ID; t.Kind == agent.KindMain {
			thread, root = "", t.ID
		}
	}
	out, mine := []R{}, map[string]bool{}
	for _, one := range steps.Must(read(thread, root)) {
		id := rootOf(one)
		if _, known := mine[id]; !known {
			mine[id] = threadID != ""
			if threadID == "" {
				_, mine[id] = steps.Found(r.Thread(r.ctx, id))
			}
		}
		if mine[id] {
			out = append(out, show(one))
		}
	}
	return out
}

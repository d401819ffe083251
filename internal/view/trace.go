package view

import (
	"context"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

// Node is a thread in the tree of a conversation.
type Node struct {
	Thread agent.Thread `json:"thread"`
	// Link is how a sub-agent's thread hangs on its parent.
	Link *Link `json:"link,omitempty"`
	// DurationMs is the time its turns were open.
	DurationMs int64   `json:"durationMs"`
	Turns      int     `json:"turns"`
	Tokens     int64   `json:"tokens"`
	Price      float64 `json:"price"`
	UI         string  `json:"ui,omitempty"`
	// Error says why the last turn of a failed or cancelled thread ended so.
	Error *TurnError `json:"error,omitempty"`
	// Wait is when the thread's model call is made again, if it waits for that.
	Wait *agent.ModelWait `json:"wait,omitempty"`
	// Questions are those that the thread itself waits for an answer to.
	Questions []QuestionRequest `json:"questions,omitempty"`
	Children  []*Node           `json:"children"`
	// Up is the way from the root to the parent, for the node asked for.
	Up []Ancestor `json:"up,omitempty"`
}

// Link names the call and the task that made a sub-agent's thread.
type Link struct {
	ParentThreadID string `json:"parentThreadId"`
	LinkCall
	// Calls are all that the parent gave it to do, in order, if it was resumed.
	Calls []LinkCall `json:"calls,omitempty"`
}

// LinkCall is one call that gave a sub-agent something to do.
type LinkCall struct {
	ToolCallID  string           `json:"toolCallId"`
	CallStatus  agent.CallStatus `json:"callStatus,omitempty"`
	TaskID      string           `json:"taskId"`
	TaskStatus  agent.TaskStatus `json:"taskStatus,omitempty"`
	Instruction string           `json:"instruction,omitempty"`
	Background  bool             `json:"background,omitempty"`
}

// Ancestor is one thread on the way up.
type Ancestor struct {
	ThreadID   string             `json:"threadId"`
	Status     agent.ThreadStatus `json:"status"`
	ToolCallID string             `json:"toolCallId"`
	TaskID     string             `json:"taskId,omitempty"`
	DurationMs int64              `json:"durationMs"`
	Tokens     int64              `json:"tokens"`
	Price      float64            `json:"price"`
	UI         string             `json:"ui,omitempty"`
}

// Trace returns a thread with all its descendants and the way up to the root.
func (v *Views) Trace(ctx context.Context, threadID string) (*Node, error) {
	return read(ctx, v, func(r reading) *Node {
		t := r.thread(threadID)
		n := r.node(t)
		for at := t; at.ParentThreadID != ""; {
			parent := r.thread(at.ParentThreadID)
			turns := steps.Must(v.store.TurnsOf(ctx, parent.ID))
			n.Up = append([]Ancestor{{ThreadID: parent.ID, Status: parent.Status, ToolCallID: at.ParentToolCallID, TaskID: at.TaskID,
				DurationMs: openFor(turns), Tokens: parent.TotalTokens, Price: parent.TotalPrice, UI: v.link(parent.ID)}}, n.Up...)
			at = parent
		}
		return n
	})
}

func (r reading) node(t agent.Thread) *Node {
	n := &Node{Thread: t, Tokens: t.TotalTokens, Price: t.TotalPrice, UI: r.link(t.ID), Children: []*Node{}}
	turns := steps.Must(r.store.TurnsOf(r.ctx, t.ID))
	n.Turns, n.DurationMs = len(turns), openFor(turns)
	if len(turns) > 0 {
		n.Error = turnError(t, &turns[len(turns)-1])
	}
	switch t.Status {
	case agent.ThreadWaitingForUser, agent.ThreadWaitingForApproval:
		for _, q := range steps.Must(r.store.Questions(r.ctx, memory.QuestionFilter{ThreadID: t.ID, OpenOnly: true})) {
			n.Questions = append(n.Questions, RequestOf(q))
		}
	case agent.ThreadRunning:
		if waits := steps.Must(r.store.ModelWaits(r.ctx, memory.WaitFilter{ThreadID: t.ID})); len(waits) > 0 && waits[0].Until.After(time.Now()) {
			n.Wait = &waits[0]
		}
	}
	if t.ParentThreadID != "" {
		n.Link = r.linkOf(t, turns)
	}
	for _, child := range steps.Must(r.store.Children(r.ctx, t.ID)) {
		n.Children = append(n.Children, r.node(child))
	}
	return n
}

func (r reading) linkOf(t agent.Thread, turns []memory.Turn) *Link {
	l := &Link{ParentThreadID: t.ParentThreadID, LinkCall: LinkCall{ToolCallID: t.ParentToolCallID, TaskID: t.TaskID, CallStatus: r.callStatus(t.ParentToolCallID)}}
	for _, task := range steps.Must(r.store.Tasks(r.ctx, t.ParentThreadID)) {
		if task.ID == t.TaskID {
			l.TaskStatus, l.Instruction = task.Status, task.Instruction
		}
		if task.SubAgentID != t.ID {
			continue
		}
		one := LinkCall{ToolCallID: agent.CallOfTask(task.ID), TaskID: task.ID, TaskStatus: task.Status, Instruction: task.Instruction}
		one.CallStatus = r.callStatus(one.ToolCallID)
		one.Background = slices.ContainsFunc(turns, func(turn memory.Turn) bool { return turn.TaskID == task.ID && turn.Background })
		l.Calls = append(l.Calls, one)
	}
	if len(l.Calls) == 1 {
		l.Calls = nil // the link says it all
	}
	if len(turns) > 0 {
		l.Background = turns[len(turns)-1].Background
	}
	return l
}

// callStatus is how a call stands; "" if it is not there.
func (r reading) callStatus(id string) agent.CallStatus {
	call, _ := steps.Found(r.store.ToolCall(r.ctx, id))
	return call.Status
}

// openFor is how long turns were open, in milliseconds.
func openFor(turns []memory.Turn) (ms int64) {
	for _, turn := range turns {
		if turn.ClosedAt != nil {
			ms += turn.ClosedAt.Sub(turn.OpenedAt).Milliseconds()
		} else {
			ms += max(0, time.Since(turn.OpenedAt)).Milliseconds()
		}
	}
	return ms
}

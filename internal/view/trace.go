package view

import (
	"context"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
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
	t, err := v.Thread(ctx, threadID)
	if err != nil {
		return nil, err
	}
	n, err := v.node(ctx, t)
	if err != nil {
		return nil, err
	}
	for at := t; at.ParentThreadID != ""; {
		parent, err := v.Thread(ctx, at.ParentThreadID)
		if err != nil {
			return nil, err
		}
		turns, err := v.store.TurnsOf(ctx, parent.ID)
		if err != nil {
			return nil, err
		}
		n.Up = append([]Ancestor{{ThreadID: parent.ID, Status: parent.Status, ToolCallID: at.ParentToolCallID, TaskID: at.TaskID,
			DurationMs: openFor(turns), Tokens: parent.TotalTokens, Price: parent.TotalPrice, UI: v.link(parent.ID)}}, n.Up...)
		at = parent
	}
	return n, nil
}

func (v *Views) node(ctx context.Context, t agent.Thread) (*Node, error) {
	n := &Node{Thread: t, Tokens: t.TotalTokens, Price: t.TotalPrice, UI: v.link(t.ID), Children: []*Node{}}
	turns, err := v.store.TurnsOf(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	n.Turns, n.DurationMs, n.Error = len(turns), openFor(turns), turnError(t, lastOf(turns))
	if t.Status == agent.ThreadWaitingForUser || t.Status == agent.ThreadWaitingForApproval {
		asked, err := v.store.Questions(ctx, memory.QuestionFilter{ThreadID: t.ID, OpenOnly: true})
		if err != nil {
			return nil, err
		}
		for _, q := range asked {
			n.Questions = append(n.Questions, RequestOf(q))
		}
	}
	if t.Status == agent.ThreadRunning {
		waits, err := v.store.ModelWaits(ctx, memory.WaitFilter{ThreadID: t.ID})
		if err != nil {
			return nil, err
		}
		if len(waits) > 0 && waits[0].Until.After(time.Now()) {
			n.Wait = &waits[0]
		}
	}
	if t.ParentThreadID != "" {
		if n.Link, err = v.linkOf(ctx, t, turns); err != nil {
			return nil, err
		}
	}
	children, err := v.store.Children(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		sub, err := v.node(ctx, child)
		if err != nil {
			return nil, err
		}
		n.Children = append(n.Children, sub)
	}
	return n, nil
}

func (v *Views) linkOf(ctx context.Context, t agent.Thread, turns []memory.Turn) (l *Link, err error) {
	l = &Link{ParentThreadID: t.ParentThreadID, LinkCall: LinkCall{ToolCallID: t.ParentToolCallID, TaskID: t.TaskID}}
	if l.CallStatus, err = v.callStatus(ctx, t.ParentToolCallID); err != nil {
		return nil, err
	}
	tasks, err := v.store.Tasks(ctx, t.ParentThreadID)
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		if task.ID == t.TaskID {
			l.TaskStatus, l.Instruction = task.Status, task.Instruction
		}
		if task.SubAgentID != t.ID {
			continue
		}
		one := LinkCall{ToolCallID: agent.CallOfTask(task.ID), TaskID: task.ID, TaskStatus: task.Status, Instruction: task.Instruction}
		if one.CallStatus, err = v.callStatus(ctx, one.ToolCallID); err != nil {
			return nil, err
		}
		one.Background = slices.ContainsFunc(turns, func(turn memory.Turn) bool { return turn.TaskID == task.ID && turn.Background })
		l.Calls = append(l.Calls, one)
	}
	if len(l.Calls) == 1 {
		l.Calls = nil // the link says it all
	}
	if len(turns) > 0 {
		l.Background = turns[len(turns)-1].Background
	}
	return l, nil
}

// callStatus is how a call stands; "" if it is not there.
func (v *Views) callStatus(ctx context.Context, id string) (agent.CallStatus, error) {
	call, err := v.store.ToolCall(ctx, id)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return "", nil
	}
	return call.Status, err
}

// openFor is how long turns were open, in milliseconds.
func openFor(turns []memory.Turn) (ms int64) {
	for _, turn := range turns {
		ms += turnTime(turn).Milliseconds()
	}
	return ms
}

// turnTime is how long a turn was open, so far.
func turnTime(t memory.Turn) time.Duration {
	if t.ClosedAt != nil {
		return t.ClosedAt.Sub(t.OpenedAt)
	}
	return max(0, time.Since(t.OpenedAt))
}

func lastOf(turns []memory.Turn) *memory.Turn {
	if len(turns) == 0 {
		return nil
	}
	return &turns[len(turns)-1]
}

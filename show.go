package spool

import (
	"context"
	"errors"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/memory"
)

const page = 1000

// View is a thread with everything that belongs to it.
type View struct {
	Thread   agent.Thread    `json:"thread"`
	Messages []agent.Message `json:"messages"`
	// Inbox holds the entries that no turn has taken.
	Inbox []memory.InboxEntry `json:"inbox"`
	// Pending is a reply that is stored while its round is not saved yet.
	Pending   *agent.Message    `json:"pending,omitempty"`
	Approvals []ApprovalRequest `json:"approvals,omitempty"`
	Questions []QuestionRequest `json:"questions,omitempty"`
	// Waits are the model calls of the thread and those below it that are made again
	// at a time to come.
	Waits     []agent.ModelWait `json:"waits,omitempty"`
	Events    []agent.Event     `json:"events,omitempty"`
	Tasks     []agent.Task      `json:"tasks"`
	ToolCalls []agent.ToolCall  `json:"toolCalls"`
	// Cursor is where to follow the thread from: what is emitted after it may, or may
	// not, be in the view already.
	Cursor string `json:"cursor,omitempty"`
	// TraceID is the trace of the thread's last turn, where telemetry is on.
	TraceID string `json:"traceId,omitempty"`
	// Trouble says why the run of an open turn does not advance, if so.
	Trouble string `json:"trouble,omitempty"`
	// Error says why the last turn of a failed or cancelled thread ended so.
	Error *TurnError `json:"error,omitempty"`
	// Damaged names messages and turns that are left out because the store cannot read them.
	Damaged []string `json:"damaged,omitempty"`
	UI      string   `json:"ui,omitempty"`
}

// TurnError is what ended a turn that failed or was cancelled.
type TurnError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// turnError is the error of a thread's last turn if that failed or was cancelled;
// nil if there is none.
func turnError(t agent.Thread, last *memory.Turn) *TurnError {
	if !ended(t) || last == nil {
		return nil
	}
	if last.ErrorCode == "" && last.Error == "" {
		return nil
	}
	return &TurnError{Code: last.ErrorCode, Message: last.Error}
}

// ended reports whether a thread's last turn ended without an answer.
func ended(t agent.Thread) bool {
	return t.Status == agent.ThreadFailed || t.Status == agent.ThreadCancelled
}

// ShowOptions say what a View holds.
type ShowOptions struct {
	// Events includes the event log.
	Events bool
	// Last bounds the messages to the last ones, and the tool calls and tasks to
	// those of these messages and those that are open; the inbox then holds what
	// waits. 0 = all. Client.MessagePage reads what stands before.
	Last int
	// Cursor includes where to follow from.
	Cursor bool
}

// Show reads a thread, with its event log if asked for.
func (c *Client) Show(ctx context.Context, threadID string, events bool) (View, error) {
	return c.ShowWith(ctx, threadID, ShowOptions{Events: events})
}

// ShowWith is Show with options.
func (c *Client) ShowWith(ctx context.Context, threadID string, o ShowOptions) (View, error) {
	t, err := c.thread(ctx, threadID)
	if err != nil {
		return View{}, err
	}
	v := View{UI: c.WorkflowURL(t.ID), Inbox: []memory.InboxEntry{}}
	if o.Cursor {
		// The thread is read after it: what the cursor is behind is in the view.
		if v.Cursor, err = c.Tail(ctx, t.ID); err != nil {
			return View{}, err
		}
		if t, err = c.thread(ctx, threadID); err != nil {
			return View{}, err
		}
	}
	v.Thread = t
	if o.Last > 0 {
		err = c.showLast(ctx, &v, o.Last)
	} else {
		err = c.showAll(ctx, &v)
	}
	if err != nil {
		return View{}, err
	}
	if v.Pending, err = c.pendingReply(ctx, t, v.ToolCalls); err != nil {
		return View{}, err
	}
	if v.Approvals, err = c.Approvals(ctx, t.ID); err != nil {
		return View{}, err
	}
	if v.Questions, err = c.Questions(ctx, t.ID); err != nil {
		return View{}, err
	}
	if v.Waits, err = c.ModelWaits(ctx, t.ID); err != nil {
		return View{}, err
	}
	if o.Events {
		if v.Events, err = c.events(ctx, t.ID, 0); err != nil {
			return View{}, err
		}
	}
	v.TraceID = c.lastTrace(ctx, t, v.Messages)
	if t.OpenTurnID != "" {
		v.Trouble = c.trouble(ctx, t.ID)
	}
	if ended(t) {
		last, err := c.store.LastTurn(ctx, t.ID)
		switch {
		case memory.IsDamaged(err):
			v.Damaged = append(v.Damaged, err.Error())
		case err != nil:
			return View{}, err
		}
		v.Error = turnError(t, last)
	}
	return v, nil
}

// messages reads all messages after a seq.
func (c *Client) messages(ctx context.Context, t agent.Thread, after int64) ([]agent.Message, error) {
	out := []agent.Message{}
	for {
		part, err := c.store.Messages(ctx, t.ID, after, page)
		if err != nil {
			return nil, err
		}
		for _, m := range part {
			if t.Kind == agent.KindSubAgent {
				m.SubAgentID = t.ID
			}
			out, after = append(out, m), m.Seq
		}
		if len(part) < page {
			return out, nil
		}
	}
}

// readable is messages without those that are damaged, which it names.
func (c *Client) readable(ctx context.Context, t agent.Thread, after int64) (out []agent.Message, damaged []string, err error) {
	out, err = c.messages(ctx, t, after)
	if !memory.IsDamaged(err) {
		return out, nil, err
	}
	out = []agent.Message{}
	for {
		part, err := c.store.Messages(ctx, t.ID, after, 1)
		var row *memory.RowError
		switch {
		case errors.As(err, &row) && row.Seq > after:
			damaged, after = append(damaged, row.Error()), row.Seq
			continue
		case err != nil:
			return nil, nil, err
		case len(part) == 0:
			return out, damaged, nil
		}
		if t.Kind == agent.KindSubAgent {
			part[0].SubAgentID = t.ID
		}
		out, after = append(out, part[0]), part[0].Seq
	}
}

// events reads the log after a seq.
func (c *Client) events(ctx context.Context, threadID string, after int64) ([]agent.Event, error) {
	out := []agent.Event{}
	for {
		part, err := c.store.Events(ctx, threadID, after, page)
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
		if len(part) < page {
			return out, nil
		}
		after = part[len(part)-1].Seq
	}
}

// pendingReply makes a message of a stored reply whose round is not saved.
func (c *Client) pendingReply(ctx context.Context, t agent.Thread, calls []agent.ToolCall) (*agent.Message, error) {
	if t.OpenTurnID == "" {
		return nil, nil
	}
	s, err := c.store.Stream(ctx, t.ID)
	if err != nil || s == nil || !s.Stored {
		return nil, err
	}
	m := &agent.Message{ID: s.MessageID, Role: agent.RoleAssistant, TurnID: s.TurnID, Timestamp: t.UpdatedAt, Content: agent.Text(s.Text), Reasoning: s.Reasoning}
	for _, call := range calls {
		if call.TurnID == s.TurnID && call.Step == s.Step {
			m.ToolCalls = append(m.ToolCalls, agent.NewCall(call.ID, call.ToolName, string(call.Args)))
		}
	}
	if m.Content.IsEmpty() && len(m.ToolCalls) > 0 {
		m.Content = agent.NullContent()
	}
	return m, nil
}

// trouble names a failing workflow task and its cause. It is best effort: what
// Temporal cannot tell is left out.
func (c *Client) trouble(ctx context.Context, threadID string) string {
	if c.temporal == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	cause, _, err := nudge.Trouble(ctx, c.temporal, c.o.Namespace, threadID)
	if err != nil {
		return ""
	}
	return cause
}

// Threads lists threads, newest activity first; sub-agents only with f.All.
func (c *Client) Threads(ctx context.Context, f memory.ThreadFilter) ([]agent.Thread, error) {
	if f.UserID == "" {
		f.UserID = c.o.UserID
	}
	if f.Profile == "" && c.o.UserID != "" {
		f.Profile = c.o.Profile
	}
	out, err := c.store.Threads(ctx, f)
	if out == nil {
		out = []agent.Thread{}
	}
	return out, err
}

// Tasks lists a thread's tasks.
func (c *Client) Tasks(ctx context.Context, threadID string) ([]agent.Task, error) {
	if _, err := c.thread(ctx, threadID); err != nil {
		return nil, err
	}
	out, err := c.store.Tasks(ctx, threadID)
	if out == nil {
		out = []agent.Task{}
	}
	return out, err
}

package view

import (
	"context"
	"errors"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/memory"
)

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
	if !failed(t) || last == nil || last.ErrorCode == "" && last.Error == "" {
		return nil
	}
	return &TurnError{Code: last.ErrorCode, Message: last.Error}
}

// failed reports whether a thread's last turn ended without an answer.
func failed(t agent.Thread) bool {
	return t.Status == agent.ThreadFailed || t.Status == agent.ThreadCancelled
}

// ShowOptions say what a View holds.
type ShowOptions struct {
	// Events includes the event log; Telling only what messages, calls and tasks do not
	// tell, from the turn of the first message on.
	Events, Telling bool
	// Last bounds the messages to the last ones, and the tool calls and tasks to
	// those of these messages and those that are open; the inbox then holds what
	// waits. 0 = all. MessagePage reads what stands before.
	Last int
	// Cursor includes where to follow from.
	Cursor bool
}

// Show reads a thread, with its event log if asked for.
func (v *Views) Show(ctx context.Context, threadID string, events bool) (View, error) {
	return v.ShowWith(ctx, threadID, ShowOptions{Events: events})
}

// ShowWith is Show with options.
func (v *Views) ShowWith(ctx context.Context, threadID string, o ShowOptions) (View, error) {
	return read(ctx, v, func(r reading) (s View) {
		if o.Cursor { // the thread is read after it: what the cursor is behind is in the view
			s.Cursor = steps.Must(v.Tail(ctx, threadID))
		}
		s.Thread = r.thread(threadID)
		s.UI, s.Inbox = v.link(threadID), []memory.InboxEntry{}
		if o.Last > 0 {
			r.showLast(&s, o.Last)
		} else {
			r.showAll(&s)
		}
		s.Pending = r.pendingReply(s.Thread, s.ToolCalls)
		s.Approvals, s.Questions, s.Waits = r.approvals(s.Thread.ID), r.questions(s.Thread.ID), r.modelWaits(s.Thread.ID)
		r.showEnd(&s)
		if o.Events {
			s.Events = steps.Must(v.Events(ctx, threadID, 0, 0))
		} else if o.Telling {
			s.Events = r.telling(threadID, s.Messages, true)
		}
		return s
	})
}

func (v *Views) link(threadID string) string {
	if v.o.Link == nil {
		return ""
	}
	return v.o.Link(threadID)
}

// showEnd reads how the last turn ended, or why the open one does not advance.
func (r reading) showEnd(s *View) {
	s.TraceID = r.lastTrace(s.Thread, s.Messages)
	if s.Thread.OpenTurnID != "" && r.o.Trouble != nil {
		s.Trouble = r.o.Trouble(r.ctx, s.Thread.ID)
	}
	if !failed(s.Thread) {
		return
	}
	last, err := r.store.LastTurn(r.ctx, s.Thread.ID)
	if memory.IsDamaged(err) {
		s.Damaged = append(s.Damaged, err.Error())
		return
	}
	steps.Check(err)
	s.Error = turnError(s.Thread, last)
}

// readable is messages without those that are damaged, which it names.
func (r reading) readable(t agent.Thread, after int64) (out []agent.Message, damaged []string) {
	out, err := r.messages(r.ctx, t, after, 0)
	if !memory.IsDamaged(err) {
		steps.Check(err)
		return out, nil
	}
	for out = []agent.Message{}; ; {
		one, err := r.messages(r.ctx, t, after, 1)
		var row *memory.RowError
		if errors.As(err, &row) && row.Seq > after {
			damaged, after = append(damaged, row.Error()), row.Seq
			continue
		}
		if steps.Check(err); len(one) == 0 {
			return out, damaged
		}
		out, after = append(out, one[0]), one[0].Seq
	}
}

// pendingReply makes a message of a stored reply whose round is not saved.
func (r reading) pendingReply(t agent.Thread, calls []agent.ToolCall) *agent.Message {
	if t.OpenTurnID == "" {
		return nil
	}
	s := steps.Must(r.store.Stream(r.ctx, t.ID))
	if s == nil || !s.Stored {
		return nil
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
	return m
}

// TraceID is the id of the trace of a turn: of a main thread's and of all
// sub-agents' turns below it.
func (v *Views) TraceID(ctx context.Context, turn memory.Turn) (string, error) {
	for turn.DelegatorTurn != "" {
		above, err := v.store.Turn(ctx, turn.DelegatorTurn)
		if err != nil {
			return "", err
		}
		turn = above
	}
	return telemetry.TraceID(turn.ID).String(), nil
}

// lastTrace is the trace of a thread's open turn, or else of the one that wrote its
// last message; "" if there is none, or the tree is damaged: verify says how.
func (r reading) lastTrace(t agent.Thread, messages []agent.Message) string {
	turn := memory.Turn{ID: t.OpenTurnID}
	if turn.ID == "" && len(messages) > 0 {
		turn.ID = messages[len(messages)-1].TurnID
	}
	if turn.ID == "" {
		return ""
	}
	var err error
	if t.Kind == agent.KindSubAgent {
		turn, err = r.store.Turn(r.ctx, turn.ID)
	}
	if id, traceErr := r.TraceID(r.ctx, turn); err == nil && traceErr == nil {
		return id
	}
	return ""
}

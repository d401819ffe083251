package view

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/follow"
	"github.com/spool-agents/spool/memory"
)

// A thread is shown as a whole, or by a window that costs what it shows, however long
// the thread is.

// showAll reads all that belongs to a thread.
func (v *Views) showAll(ctx context.Context, s *View) error {
	t := s.Thread
	var err error
	if s.Messages, s.Damaged, err = v.readable(ctx, t, 0); err != nil {
		return err
	}
	inbox, err := v.store.Inbox(ctx, t.ID)
	if err != nil {
		return err
	}
	for _, e := range inbox {
		if e.State != memory.EntryTaken {
			s.Inbox = append(s.Inbox, e)
		}
	}
	follow.AddSenders(s.Messages, inbox)
	if s.Tasks, err = list(v.store.Tasks(ctx, t.ID)); err != nil {
		return err
	}
	s.ToolCalls, err = callsOf(t)(v.store.ToolCalls(ctx, t.ID))
	return err
}

// showLast reads the last messages of a thread and what belongs to them.
func (v *Views) showLast(ctx context.Context, s *View, last int) error {
	t := s.Thread
	// Before the messages: a call whose round is saved meanwhile is in both.
	open, err := v.store.OpenCalls(ctx, t.ID)
	if err != nil {
		return err
	}
	if s.Messages, s.Damaged, err = v.readable(ctx, t, max(0, t.MessageCount-int64(last))); err != nil {
		return err
	}
	if s.Inbox, err = list(v.store.Waiting(ctx, t.ID)); err != nil {
		return err
	}
	if err := follow.NameSenders(ctx, v.store, t.ID, s.Messages); err != nil {
		return err
	}
	s.ToolCalls, s.Tasks, err = v.workOf(ctx, t, append(open, callIDs(s.Messages)...))
	return err
}

// MessagePage is a page of a thread's messages with the tool calls and tasks that
// belong to them.
type MessagePage struct {
	Messages  []agent.Message  `json:"messages"`
	ToolCalls []agent.ToolCall `json:"toolCalls"`
	Tasks     []agent.Task     `json:"tasks"`
	// Events say what messages, calls and tasks do not, of the turns of the messages.
	Events []agent.Event `json:"events"`
}

// MessagePage reads up to limit messages with seq > after, and
// what belongs to them. Limit has to be positive.
func (v *Views) MessagePage(ctx context.Context, threadID string, after int64, limit int) (p MessagePage, err error) {
	if limit <= 0 {
		return p, agent.Errorf(agent.CodeInvalid, "a page of %d messages is not possible", limit)
	}
	t, err := v.Thread(ctx, threadID)
	if err != nil {
		return p, err
	}
	if p.Messages, err = v.messages(ctx, t, after, limit); err != nil {
		return p, err
	}
	if p.ToolCalls, p.Tasks, err = v.workOf(ctx, t, callIDs(p.Messages)); err != nil {
		return p, err
	}
	p.Events, err = v.telling(ctx, t.ID, p.Messages, false)
	return p, err
}

// callIDs names the calls that messages make or answer.
func callIDs(messages []agent.Message) []string {
	var ids []string
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			ids = append(ids, call.ID)
		}
		if m.ToolCallID != "" {
			ids = append(ids, m.ToolCallID)
		}
	}
	return ids
}

// workOf reads the named calls of a thread, each once, and their tasks.
func (v *Views) workOf(ctx context.Context, t agent.Thread, ids []string) ([]agent.ToolCall, []agent.Task, error) {
	seen := make(map[string]bool, len(ids))
	once := make([]string, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	calls, err := callsOf(t)(v.store.ToolCallsOf(ctx, t.ID, once))
	if err != nil {
		return nil, nil, err
	}
	tasks, err := list(v.store.TasksOf(ctx, t.ID, once))
	return calls, tasks, err
}

// tells are the events that say what messages, calls and tasks do not.
var tells = map[string]bool{
	agent.EventDone: true, agent.EventError: true, agent.EventWarning: true, agent.EventStreamFinish: true, agent.EventContextSummary: true, agent.EventMemoryEdited: true,
	agent.EventApprovalRequired: true, agent.EventApprovalResponse: true, agent.EventQuestionAsked: true, agent.EventQuestionAnswered: true, agent.EventSubAgentCompleted: true,
}

// mostTold bounds the events that are looked through for a window of messages.
const mostTold = 20 * page

// telling reads what a thread's log tells beside some of its messages, from the turn of
// the first to the end of the last one's, or of the log if nothing comes after them.
func (v *Views) telling(ctx context.Context, threadID string, messages []agent.Message, toEnd bool) ([]agent.Event, error) {
	out := []agent.Event{}
	if len(messages) == 0 {
		return out, nil
	}
	first, err := v.store.Turn(ctx, messages[0].TurnID)
	if err != nil {
		return out, unlessMissing(err) // of an import
	}
	after, err := v.before(ctx, threadID, first.OpenedAt)
	if err != nil {
		return nil, err
	}
	last := messages[len(messages)-1].TurnID
	for end := after + mostTold; after < end; {
		events, err := v.store.Events(ctx, threadID, after, page)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			after = e.Seq
			if !tells[e.Type] || e.At.Before(first.OpenedAt) {
				continue
			}
			out = append(out, e)
			if !toEnd && e.TurnID == last && (e.Type == agent.EventDone || e.Type == agent.EventError) {
				return out, nil
			}
		}
		if len(events) < page {
			break
		}
	}
	return out, nil
}

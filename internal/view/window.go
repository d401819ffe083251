package view

import (
	"context"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/internal/follow"
	"github.com/spool-agents/spool/memory"
)

// A thread is shown as a whole, or by a window that costs what it shows, however long
// the thread is.

func (r reading) showAll(s *View) {
	t := s.Thread
	s.Messages, s.Damaged = r.readable(t, 0)
	inbox := steps.Must(r.store.Inbox(r.ctx, t.ID))
	for _, e := range inbox {
		if e.State != memory.EntryTaken {
			s.Inbox = append(s.Inbox, e)
		}
	}
	follow.AddSenders(s.Messages, inbox)
	s.Tasks = steps.Must(list(r.store.Tasks(r.ctx, t.ID)))
	s.ToolCalls = steps.Must(callsOf(t)(r.store.ToolCalls(r.ctx, t.ID)))
}

// showLast reads the last messages of a thread and what belongs to them.
func (r reading) showLast(s *View, last int) {
	t := s.Thread
	// Before the messages: a call whose round is saved meanwhile is in both.
	open := steps.Must(r.store.OpenCalls(r.ctx, t.ID))
	s.Messages, s.Damaged = r.readable(t, max(0, t.MessageCount-int64(last)))
	s.Inbox = steps.Must(list(r.store.Waiting(r.ctx, t.ID)))
	steps.Check(follow.NameSenders(r.ctx, r.store, t.ID, s.Messages))
	s.ToolCalls, s.Tasks = r.workOf(t, append(open, callIDs(s.Messages)...))
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
func (v *Views) MessagePage(ctx context.Context, threadID string, after int64, limit int) (MessagePage, error) {
	if limit <= 0 {
		return MessagePage{}, agent.Errorf(agent.CodeInvalid, "a page of %d messages is not possible", limit)
	}
	return read(ctx, v, func(r reading) (p MessagePage) {
		t := r.thread(threadID)
		p.Messages = steps.Must(v.messages(ctx, t, after, limit))
		p.ToolCalls, p.Tasks = r.workOf(t, callIDs(p.Messages))
		p.Events = r.telling(t.ID, p.Messages, false)
		return p
	})
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
func (r reading) workOf(t agent.Thread, ids []string) ([]agent.ToolCall, []agent.Task) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return steps.Must(callsOf(t)(r.store.ToolCallsOf(r.ctx, t.ID, ids))), steps.Must(list(r.store.TasksOf(r.ctx, t.ID, ids)))
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
func (r reading) telling(threadID string, messages []agent.Message, toEnd bool) []agent.Event {
	out := []agent.Event{}
	if len(messages) == 0 {
		return out
	}
	first, there := steps.Found(r.store.Turn(r.ctx, messages[0].TurnID))
	if !there { // of an import
		return out
	}
	after := r.before(threadID, first.OpenedAt)
	last := messages[len(messages)-1].TurnID
	for end := after + mostTold; after < end; {
		events := steps.Must(r.store.Events(r.ctx, threadID, after, page))
		for _, e := range events {
			after = e.Seq
			if !tells[e.Type] || e.At.Before(first.OpenedAt) {
				continue
			}
			out = append(out, e)
			if !toEnd && e.TurnID == last && (e.Type == agent.EventDone || e.Type == agent.EventError) {
				return out
			}
		}
		if len(events) < page {
			break
		}
	}
	return out
}

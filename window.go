package spool

import (
	"context"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Views of a thread: the whole, or a window that costs what it shows, however long
// the thread is.

// showAll reads all that belongs to a thread.
func (c *Client) showAll(ctx context.Context, v *View) error {
	t := v.Thread
	var err error
	if v.Messages, v.Damaged, err = c.readable(ctx, t, 0); err != nil {
		return err
	}
	inbox, err := c.store.Inbox(ctx, t.ID)
	if err != nil {
		return err
	}
	for _, e := range inbox {
		if e.State != memory.EntryTaken {
			v.Inbox = append(v.Inbox, e)
		}
	}
	addSenders(v.Messages, inbox)
	if v.Tasks, err = c.store.Tasks(ctx, t.ID); err != nil {
		return err
	}
	if v.Tasks == nil {
		v.Tasks = []agent.Task{}
	}
	v.ToolCalls, err = c.toolCalls(ctx, t)
	return err
}

// showLast reads the last messages of a thread and what belongs to them.
func (c *Client) showLast(ctx context.Context, v *View, last int) error {
	t := v.Thread
	// Before the messages: a call whose round is saved meanwhile is in both.
	open, err := c.store.OpenCalls(ctx, t.ID)
	if err != nil {
		return err
	}
	if v.Messages, v.Damaged, err = c.readable(ctx, t, max(0, t.MessageCount-int64(last))); err != nil {
		return err
	}
	if v.Inbox, err = c.store.Waiting(ctx, t.ID); err != nil {
		return err
	}
	if v.Inbox == nil {
		v.Inbox = []memory.InboxEntry{}
	}
	if err := addLateSenders(ctx, c.store, t.ID, v.Messages); err != nil {
		return err
	}
	v.ToolCalls, v.Tasks, err = c.workOf(ctx, t, append(open, callsOf(v.Messages)...))
	return err
}

// MessagePage is a page of a thread's messages with the tool calls and tasks that
// belong to them.
type MessagePage struct {
	Messages  []agent.Message  `json:"messages"`
	ToolCalls []agent.ToolCall `json:"toolCalls"`
	Tasks     []agent.Task     `json:"tasks"`
}

// MessagePage reads up to limit messages with seq > after, and
// what belongs to them. Limit has to be positive.
func (c *Client) MessagePage(ctx context.Context, threadID string, after int64, limit int) (p MessagePage, err error) {
	if limit <= 0 {
		return p, agent.Errorf(agent.CodeInvalid, "a page of %d messages is not possible", limit)
	}
	if p.Messages, err = c.Messages(ctx, threadID, after, limit); err != nil {
		return p, err
	}
	t, err := c.thread(ctx, threadID)
	if err != nil {
		return p, err
	}
	p.ToolCalls, p.Tasks, err = c.workOf(ctx, t, callsOf(p.Messages))
	return p, err
}

// callsOf names the calls that messages make or answer.
func callsOf(messages []agent.Message) []string {
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
func (c *Client) workOf(ctx context.Context, t agent.Thread, ids []string) ([]agent.ToolCall, []agent.Task, error) {
	seen := make(map[string]bool, len(ids))
	once := make([]string, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	calls, err := c.store.ToolCallsOf(ctx, t.ID, once)
	if err != nil {
		return nil, nil, err
	}
	tasks, err := c.store.TasksOf(ctx, t.ID, once)
	if err != nil {
		return nil, nil, err
	}
	return asSeen(t, calls), append([]agent.Task{}, tasks...), nil
}

// asSeen is how a thread's calls are shown.
func asSeen(t agent.Thread, calls []agent.ToolCall) []agent.ToolCall {
	for i := range calls {
		if t.Kind == agent.KindSubAgent {
			calls[i].SubAgentID = t.ID
		}
	}
	return append([]agent.ToolCall{}, calls...)
}

// addSenders gives messages the ids that their senders gave them, as far as the
// entries tell, and returns how many of a person's messages have none.
func addSenders(messages []agent.Message, entries []memory.InboxEntry) (unknown int) {
	sent := make(map[string]string, len(entries)) // our id of a message -> its sender's
	for _, e := range entries {
		if e.Kind == memory.EntryMessage {
			sent[agent.MessageID(e.TurnID, 0)] = e.ID
		}
	}
	for i := range messages {
		m := &messages[i]
		if m.MessageID == "" {
			m.MessageID = sent[m.ID]
		}
		if m.MessageID == "" && fromPerson(m) {
			unknown++
		}
	}
	return unknown
}

func fromPerson(m *agent.Message) bool {
	return m.Role == agent.RoleUser && !strings.HasPrefix(m.Source, "agent:")
}

// addLateSenders is addSenders for messages near the end of a thread: it reads the
// inbox from its end, until all are known.
func addLateSenders(ctx context.Context, store memory.Reader, threadID string, messages []agent.Message) error {
	unknown := addSenders(messages, nil)
	for before, limit := int64(0), max(unknown, 20); unknown > 0; limit *= 2 {
		entries, err := store.InboxBefore(ctx, threadID, before, limit)
		if err != nil || len(entries) == 0 {
			return err
		}
		unknown, before = addSenders(messages, entries), entries[len(entries)-1].Seq
	}
	return nil
}

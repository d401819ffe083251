package spool

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Thread reads a thread's own record.
func (c *Client) Thread(ctx context.Context, threadID string) (agent.Thread, error) {
	return c.thread(ctx, threadID)
}

// Messages reads up to limit messages of a thread with seq > after, in order.
// limit 0 reads all.
func (c *Client) Messages(ctx context.Context, threadID string, after int64, limit int) ([]agent.Message, error) {
	t, err := c.thread(ctx, threadID)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		return c.messages(ctx, t, after)
	}
	out, err := c.store.Messages(ctx, t.ID, after, limit)
	if out == nil {
		out = []agent.Message{}
	}
	for i := range out {
		if t.Kind == agent.KindSubAgent {
			out[i].SubAgentID = t.ID
		}
	}
	return out, err
}

// Events reads up to limit entries of a thread's log with seq > after, in order.
// limit 0 reads all.
func (c *Client) Events(ctx context.Context, threadID string, after int64, limit int) ([]agent.Event, error) {
	if _, err := c.thread(ctx, threadID); err != nil {
		return nil, err
	}
	if limit <= 0 {
		return c.events(ctx, threadID, after)
	}
	out, err := c.store.Events(ctx, threadID, after, limit)
	if out == nil {
		out = []agent.Event{}
	}
	return out, err
}

// ToolCalls lists a thread's tool calls.
func (c *Client) ToolCalls(ctx context.Context, threadID string) ([]agent.ToolCall, error) {
	t, err := c.thread(ctx, threadID)
	if err != nil {
		return nil, err
	}
	return c.toolCalls(ctx, t)
}

func (c *Client) toolCalls(ctx context.Context, t agent.Thread) ([]agent.ToolCall, error) {
	out, err := c.store.ToolCalls(ctx, t.ID)
	return asSeen(t, out), err
}

// ToolOutput is the whole output of a call, also where the model was told only a
// part of it.
func (c *Client) ToolOutput(ctx context.Context, callID string) (string, error) {
	call, err := c.store.ToolCall(ctx, callID)
	if err != nil {
		return "", err
	}
	if _, err := c.thread(ctx, call.ThreadID); err != nil {
		if agent.CodeOf(err) == agent.CodeNotFound {
			return "", agent.Errorf(agent.CodeNotFound, "tool call %q does not exist", callID)
		}
		return "", err
	}
	return c.store.ToolOutput(ctx, callID)
}

// SubAgents lists the sub-agents of a chat, named by its main thread, at any
// depth and in order of creation.
func (c *Client) SubAgents(ctx context.Context, chatID string) ([]agent.SubAgent, error) {
	chat, err := c.chat(ctx, chatID)
	if err != nil {
		return nil, err
	}
	threads, err := c.Threads(ctx, memory.ThreadFilter{All: true, Root: chat.ID})
	if err != nil {
		return nil, err
	}
	out := []agent.SubAgent{}
	for i := len(threads) - 1; i >= 0; i-- {
		if t := threads[i]; t.Kind == agent.KindSubAgent {
			out = append(out, agent.SubAgentOf(t))
		}
	}
	return out, nil
}

// SubAgent returns a sub-agent of a chat, named by its thread id or agent id.
func (c *Client) SubAgent(ctx context.Context, chatID, id string) (agent.SubAgent, error) {
	chat, err := c.chat(ctx, chatID)
	if err != nil {
		return agent.SubAgent{}, err
	}
	missing := agent.Errorf(agent.CodeNotFound, "chat %q has no sub-agent %q", chatID, id)
	threadID := agent.ThreadOfAgent(id)
	if threadID == "" {
		return agent.SubAgent{}, missing
	}
	t, err := c.thread(ctx, threadID)
	if agent.CodeOf(err) == agent.CodeNotFound || err == nil && t.RootThreadID != chat.ID {
		return agent.SubAgent{}, missing
	}
	return agent.SubAgentOf(t), err
}

// chat reads a main thread.
func (c *Client) chat(ctx context.Context, chatID string) (agent.Thread, error) {
	t, err := c.thread(ctx, chatID)
	if err == nil && t.Kind != agent.KindMain {
		return agent.Thread{}, agent.Errorf(agent.CodeNotFound, "chat %q does not exist", chatID)
	}
	return t, err
}

// ThreadPage lists up to limit threads behind the cursor of an earlier page
// (empty: from the start), and the cursor of the next page, if there is one.
func (c *Client) ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) (threads []agent.Thread, next string, err error) {
	if f.Before, f.AfterID, err = parsePage(after); err != nil {
		return nil, "", err
	}
	f.Limit = limit + 1
	list, err := c.Threads(ctx, f)
	if err != nil || len(list) <= limit {
		return list, "", err
	}
	list = list[:limit]
	last := list[limit-1]
	return list, strconv.FormatInt(last.UpdatedAt.UnixMilli(), 10) + ":" + last.ID, nil
}

// CheckPage checks the cursor of a page of threads.
func CheckPage(after string) error {
	_, _, err := parsePage(after)
	return err
}

func parsePage(after string) (at time.Time, id string, err error) {
	if after == "" {
		return at, "", nil
	}
	ms, id, _ := strings.Cut(after, ":")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n <= 0 || id == "" {
		return at, "", agent.Errorf(agent.CodeInvalid, "after %q is not valid: use the cursor that the list before has named", after)
	}
	return time.UnixMilli(n), id, nil
}

// Watch calls f now and whenever something may have been committed to the store,
// until f or ctx ends it. A store that is away is waited for.
func (c *Client) Watch(ctx context.Context, f func() error) error {
	w := c.changes()
	defer w.stop()
	for {
		if _, err := w.wait(ctx); err != nil {
			return err
		}
		if err := f(); err != nil && !away(ctx, err) {
			return err
		}
	}
}

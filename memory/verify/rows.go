package verify

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// rows is all that is stored about a thread.
type rows struct {
	thread   agent.Thread
	messages []agent.Message
	events   []event
	tasks    []agent.Task
	calls    []agent.ToolCall
	inbox    []memory.InboxEntry
	turns    []memory.Turn
	asked    []memory.Question

	// Indexes, so that a check is linear in the number of rows.
	ends      map[string]int // done and error events, by turn
	responses map[string]int // tool_response events, by call
	announced map[string]int // tool_call events, by call
	created   map[made]int   // tool_call events with a link
	ordered   map[made]int   // tasks, by their ids and sub-agents
	childEnds map[string]int // inbox entries of ends, by the child's turn
	finished  map[string]agent.ToolCall

	// broken means that a row cannot be read.
	broken bool
}

// event is an event with the parts of its payload that rules speak about.
type event struct {
	agent.Event
	call string
	link string
}

// made is a link: which call made, or which task names, which sub-agent.
type made struct{ call, child string }

func read(ctx context.Context, r memory.Reader, th agent.Thread) (one *rows, err error) {
	one = &rows{thread: th}
	if one.messages, err = r.Messages(ctx, th.ID, 0, 0); err != nil {
		return one, err
	}
	log, err := r.Events(ctx, th.ID, 0, 0)
	if err != nil {
		return one, err
	}
	for _, e := range log {
		var d struct {
			ToolCallID       string `json:"toolCallId"`
			SubAgentThreadID string `json:"sub_agent_thread_id"`
		}
		// Payloads that are no object have no link; that is fine here.
		_ = json.Unmarshal(e.Data, &d)
		one.events = append(one.events, event{e, d.ToolCallID, d.SubAgentThreadID})
	}
	if one.tasks, err = r.Tasks(ctx, th.ID); err != nil {
		return one, err
	}
	if one.calls, err = r.ToolCalls(ctx, th.ID); err != nil {
		return one, err
	}
	if one.inbox, err = r.Inbox(ctx, th.ID); err != nil {
		return one, err
	}
	if one.asked, err = r.Questions(ctx, memory.QuestionFilter{ThreadID: th.ID}); err != nil {
		return one, err
	}
	if one.turns, err = r.TurnsOf(ctx, th.ID); err != nil {
		return one, err
	}
	one.index()
	return one, nil
}

func (one *rows) index() {
	one.ends, one.responses, one.announced = map[string]int{}, map[string]int{}, map[string]int{}
	one.created, one.ordered = map[made]int{}, map[made]int{}
	one.childEnds, one.finished = map[string]int{}, map[string]agent.ToolCall{}
	for _, k := range one.tasks {
		one.ordered[made{k.ID, k.SubAgentID}]++
	}
	for _, e := range one.events {
		switch e.Type {
		case agent.EventDone, agent.EventError:
			one.ends[e.TurnID]++
		case agent.EventToolResponse:
			one.responses[e.call]++
		case agent.EventToolCall:
			one.announced[e.call]++
			one.created[made{e.call, e.link}]++
		}
	}
	for _, e := range one.inbox {
		if e.Kind == memory.EntryChild {
			one.childEnds[e.ChildTurn]++
		}
	}
	for _, c := range one.calls {
		if c.Status.Final() {
			one.finished[c.ID] = c
		}
	}
}

// check is a check under way.
type check struct {
	threads Store
	all     []*rows
	byID    map[string]*rows
	found   []Violation
}

func (c *check) add(rule int, threadID, format string, args ...any) {
	c.found = append(c.found, Violation{rule, threadID, fmt.Sprintf(format, args...)})
}

// get returns a thread's rows, also of one outside the checked trees, or nil.
func (c *check) get(ctx context.Context, id string) (*rows, error) {
	if one := c.byID[id]; one != nil {
		return one, nil
	}
	th, err := c.threads.Thread(ctx, "", id)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil, nil
	}
	if unreadable(ctx, err) {
		th.ID = id
		c.byID[id] = &rows{thread: th, broken: true}
		return c.byID[id], nil
	}
	if err != nil {
		return nil, err
	}
	one, err := read(ctx, c.threads, th)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound: // deleted meanwhile
		return nil, nil
	case unreadable(ctx, err):
		one.broken = true
	case err != nil:
		return nil, err
	}
	c.byID[id] = one
	return one, nil
}

// unreadable reports whether an error is about rows, not about reaching the store.
func unreadable(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && agent.CodeOf(err) == agent.CodeInternal
}

// audit reports what the store itself finds in the rows of a thread.
func (c *check) audit(ctx context.Context, one *rows) error {
	found, err := c.threads.Audit(ctx, one.thread.ID)
	if agent.CodeOf(err) == agent.CodeNotFound {
		one.broken = true
		if _, gone := c.threads.Thread(ctx, "", one.thread.ID); gone == nil { // not deleted meanwhile
			c.add(RuleAgree, one.thread.ID, "a row that others name is missing: %v", err)
		}
		return nil
	}
	if unreadable(ctx, err) {
		c.add(RuleReadable, one.thread.ID, "%v", err)
		one.broken = true
		return nil
	}
	for _, f := range found {
		switch {
		case f.Mendable:
			c.add(RuleAgree, one.thread.ID, "--repair would mend: %s", f.Detail)
		case f.Kind == memory.FoundDamaged:
			c.add(RuleReadable, one.thread.ID, "%s", f.Detail)
		default:
			c.add(RuleAgree, one.thread.ID, "%s", f.Detail)
		}
	}
	return err
}

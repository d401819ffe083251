package verify

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

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
	began     map[made]int   // sub_agent_started events
	told      map[made]int   // sub_agent_completed events
	ordered   map[made]int   // tasks, by their ids and sub-agents
	childEnds map[string]int // inbox entries of ends, by the child's turn
	endsTaken map[string]bool
	finished  map[string]agent.ToolCall

	// broken means that a row cannot be read; err is what reading it said.
	broken bool
	err    error
}

// event is an event with the parts of its payload that rules speak about.
type event struct {
	agent.Event
	call string
	link string
	// parent is the call that gave the task that a sub_agent_completed event ends.
	parent string
}

// made is a link: which call made, or which task names, which sub-agent.
type made struct{ call, child string }

// read reads a thread's rows; it ends at the first that cannot be read.
func (one *rows) read(ctx context.Context, r memory.Reader) {
	id := one.thread.ID
	one.messages = steps.Must(r.Messages(ctx, id, 0, 0))
	for _, e := range steps.Must(r.Events(ctx, id, 0, 0)) {
		var d struct {
			ToolCallID       string `json:"toolCallId"`
			ParentToolCallID string `json:"parentToolCallId"`
			SubAgentThreadID string `json:"sub_agent_thread_id"`
		}
		// Payloads that are no object have no link; that is fine here.
		_ = json.Unmarshal(e.Data, &d)
		one.events = append(one.events, event{e, d.ToolCallID, d.SubAgentThreadID, d.ParentToolCallID})
	}
	one.tasks = steps.Must(r.Tasks(ctx, id))
	one.calls = steps.Must(r.ToolCalls(ctx, id))
	one.inbox = steps.Must(r.Inbox(ctx, id))
	one.asked = steps.Must(r.Questions(ctx, memory.QuestionFilter{ThreadID: id}))
	one.turns = steps.Must(r.TurnsOf(ctx, id))
	one.index()
}

func (one *rows) index() {
	one.ends, one.responses, one.announced = map[string]int{}, map[string]int{}, map[string]int{}
	one.created, one.ordered, one.began, one.told = map[made]int{}, map[made]int{}, map[made]int{}, map[made]int{}
	one.childEnds, one.endsTaken, one.finished = map[string]int{}, map[string]bool{}, map[string]agent.ToolCall{}
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
		case agent.EventSubAgentStarted:
			one.began[made{e.call, e.link}]++
		case agent.EventSubAgentCompleted:
			one.told[made{e.parent, e.link}]++
		}
	}
	for _, e := range one.inbox {
		if e.Kind == memory.EntryChild {
			one.childEnds[e.ChildTurn]++
			one.endsTaken[e.ChildTurn] = one.endsTaken[e.ChildTurn] || e.State == memory.EntryTaken
		}
	}
	for _, c := range one.calls {
		if c.Status.Final() {
			one.finished[c.ID] = c
		}
	}
}

// check is a check under way. It ends at its first error (package steps).
type check struct {
	ctx     context.Context
	threads Store
	all     []*rows
	byID    map[string]*rows
	found   []Violation
}

func (c *check) add(rule int, threadID, format string, args ...any) {
	c.found = append(c.found, Violation{rule, threadID, fmt.Sprintf(format, args...)})
}

// get returns a thread's rows, also of one outside the checked trees, or nil.
func (c *check) get(id string) *rows {
	if one := c.byID[id]; one != nil {
		return one
	}
	one := &rows{}
	err := steps.Run(func() {
		th, err := c.threads.Thread(c.ctx, "", id)
		one.thread, one.thread.ID = th, id
		steps.Check(err)
		one.read(c.ctx, c.threads)
	})
	if agent.CodeOf(err) == agent.CodeNotFound { // or deleted meanwhile
		return nil
	}
	if one.broken, one.err = unreadable(c.ctx, err), err; !one.broken {
		steps.Check(err)
	}
	c.byID[id] = one
	return one
}

// unreadable reports whether an error is about rows, not about reaching the store.
func unreadable(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && agent.CodeOf(err) == agent.CodeInternal
}

// audit reports what the store itself finds in the rows of a thread.
func (c *check) audit(one *rows) {
	found, err := c.threads.Audit(c.ctx, one.thread.ID)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		one.broken = true
		if _, gone := c.threads.Thread(c.ctx, "", one.thread.ID); gone == nil { // not deleted meanwhile
			c.add(RuleAgree, one.thread.ID, "a row that others name is missing: %v", err)
		}
		return
	case unreadable(c.ctx, err):
		one.broken = true
		c.add(RuleReadable, one.thread.ID, "%v", err)
		return
	}
	steps.Check(err)
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
}

package suite

import (
	"errors"
	"fmt"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/port"
)

func (e *Env) Listed(states []port.AgentState, err error) []string {
	e.Ok(err)
	ids := []string{}
	for _, s := range states {
		ids = append(ids, s.ThreadID)
	}
	return ids
}

// Background opens a step whose one call is delegated in the background.
func (e *Env) Background(t memory.Turn, step int, agentType string) memory.Delegation {
	r := Delegation(e.Assigns(t, step, 1)[0], agentType)
	r.Background = true
	d := e.Open(r)
	Equal(e, "background", [2]bool{d.Refused, d.Background}, [2]bool{false, true})
	if c := e.Call(r.CallID); !c.Status.Final() {
		e.Ok(e.S.SaveResult(e.Ctx, Result(c, c.Attempts, "started "+d.ChildThread)))
	}
	return d
}

// ChildDone runs one foreground delegation of step 1 to its end.
func (e *Env) ChildDone(t memory.Turn, step int) memory.Delegation {
	d := e.Delegate(t, step, "researcher")
	e.Answer(e.Take(d.ChildThread), 1, "the finding")
	e.Taken(t, step)
	return d
}

// Child delegates in a step's one call, in the foreground, and begins.
func (e *Env) Child(t memory.Turn, step int) memory.Turn {
	return e.Take(e.Delegate(t, step, "researcher").ChildThread)
}

// Apart delegates in a step's one call, in the background, and begins.
func (e *Env) Apart(t memory.Turn, step int) memory.Turn {
	d := e.Background(t, step, "general")
	e.SaveRound(t, step)
	return e.Take(d.ChildThread)
}

// Taken takes the result of the sub-agent of a step's one call, and saves the round.
func (e *Env) Taken(t memory.Turn, step int) {
	Equal(e, "done", e.TakeResult(e.FirstCall(t, step)).Done, true)
	e.SaveRound(t, step)
}

// Away has a turn start a sub-agent in the background and end before it begins.
func (e *Env) Away(t memory.Turn) memory.Delegation {
	d := e.Background(t, 1, "researcher")
	e.SaveRound(t, 1)
	e.Answer(t, 2, "it is on its way")
	return d
}

func Resume(c agent.ToolCall, id string) memory.DelegationRequest {
	r := Delegation(c, "researcher")
	r.Resume, r.Task = id, "go on"
	return r
}

func CancelOf(t memory.Turn) memory.CancelRequest {
	return memory.CancelRequest{UserID: User, ThreadID: t.ThreadID, TurnID: t.ID, By: "alice"}
}

func (e *Env) RequestCancel(r memory.CancelRequest) memory.CancelResult {
	return Must(e.S.RequestCancel(e.Ctx, r))(e)
}

// IsCancel checks that an operation was refused because its turn is to be cancelled.
func (e *Env) IsCancel(err error) {
	e.Code(err, agent.CodeConflict)
	if !errors.Is(err, memory.ErrCancelRequested) {
		e.Errorf("errors.Is(%v, memory.ErrCancelRequested) does not hold", err)
	}
}

func (e *Env) AllOf(t memory.Turn) memory.CancelResult {
	r := CancelOf(t)
	r.All = true
	return e.RequestCancel(r)
}

// QuietAfter checks that nothing opens a turn of a thread until somebody writes,
// and that the next turn tells the ends of so many children.
func (e *Env) QuietAfter(t memory.Turn, ends int) {
	e.H.Clock.Advance(time.Minute)
	_, due := e.Overdue(time.Second)[t.ThreadID]
	Equal(e, "overdue", due, false)
	claim := Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: t.ThreadID}))(e)
	Equal(e, "nothing to take", claim.Turn == nil, true)
	before := len(e.Messages(t.ThreadID))
	next := e.Take(e.Send(e.Thread(t.ThreadID).SessionID, "after").ThreadID)
	told := e.Messages(t.ThreadID)[before:]
	Equal(e, "ends and the message", [2]any{len(told), e.Last(t.ThreadID)}, [2]any{ends + 1, "text of after"})
	for _, m := range told[:ends] {
		Contains(e, "source", m.Source, "agent:agent:")
	}
	Equal(e, "the message is charged with nothing else", next.Usage, agent.Usage{})
	e.Answer(next, 1, "fine")
	e.Sound(t.ThreadID)
}

func Assign(n int) agent.Call {
	return agent.NewCall("provider-1", "assign_task", fmt.Sprintf(`{"agent":"researcher","task":"t%d"}`, n))
}

// limits are wide enough not to matter.
var limits = memory.DelegationLimits{MaxDepth: 3, MaxFanOut: 8, MaxDescendants: 100}

func Delegation(c agent.ToolCall, agentType string) memory.DelegationRequest {
	return memory.DelegationRequest{
		ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Task: "find out", Description: "research", Limits: limits,
		Config: agent.SpecialistAgentConfig{Name: agentType, SystemPrompt: "You research.", Tools: []string{"lookup"}},
	}
}

func (e *Env) Open(r memory.DelegationRequest) memory.Delegation {
	return Must(e.S.OpenDelegation(e.Ctx, r))(e)
}

func (e *Env) Assigns(t memory.Turn, step, n int) []agent.ToolCall {
	var list []agent.Call
	for i := range n {
		list = append(list, Assign(i))
	}
	return e.Reply(t, step, "", list...).Calls
}

// Delegate opens a step whose one call is delegated in the foreground.
func (e *Env) Delegate(t memory.Turn, step int, agentType string) memory.Delegation {
	d := e.Open(Delegation(e.Assigns(t, step, 1)[0], agentType))
	if d.Refused {
		e.Fatalf("refused: %s", d.Refusal)
	}
	return d
}

func ChildResult(c agent.ToolCall) memory.ChildResultRequest {
	return memory.ChildResultRequest{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID}
}

func (e *Env) TakeResult(c agent.ToolCall) memory.ChildResult {
	return Must(e.S.TakeChildResult(e.Ctx, ChildResult(c)))(e)
}

func (e *Env) Task(threadID, taskID string) agent.Task {
	for _, k := range Must(e.S.Tasks(e.Ctx, threadID))(e) {
		if k.ID == taskID {
			return k
		}
	}
	e.Fatalf("no task %s in %s", taskID, threadID)
	return agent.Task{}
}

func (e *Env) Children(id string) []agent.Thread { return Must(e.S.Children(e.Ctx, id))(e) }

func (e *Env) FirstCall(t memory.Turn, step int) agent.ToolCall {
	return e.Call(agent.CallID(t.ID, step, 0))
}

// Refused checks that a delegation is refused as a result and makes nothing.
func (e *Env) Refused(r memory.DelegationRequest) {
	children := len(e.Children(r.ThreadID))
	d := e.Open(r)
	Equal(e, "refused", d.Refused, true)
	c := e.Call(r.CallID)
	Equal(e, "status", c.Status, agent.CallFailed)
	if c.Result == "" || d.Refusal != c.Result {
		e.Errorf("the refusal %q is not the result %q", d.Refusal, c.Result)
	}
	Equal(e, "children", len(e.Children(r.ThreadID)), children)
	root := e.Thread(r.ThreadID).RootThreadID
	e.Unchanged(root, func() { Equal(e, "repeated", e.Open(r).Refused, true) })
}

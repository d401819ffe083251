package treecases

import (
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var cascadeRules = []suite.Rule{
	{Name: "a cancelled turn closes its foreground descendants with it", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Child(child, 1)
		a := e.Begin(grand, 1)
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(grand, 1, a, 0, "half a fin")))
		c := e.Close(suite.Cancelled(t, 1))
		suite.Equal(e, "stopped", len(c.Stopped), 2)
		for _, turn := range []memory.Turn{child, grand} {
			got := e.Turn(turn.ID)
			suite.Equal(e, "turn", [2]string{string(got.State), string(got.Outcome)}, [2]string{"closed", "cancelled"})
			suite.Equal(e, "thread", e.Thread(turn.ThreadID).Status, agent.ThreadCancelled)
		}
		suite.Equals(e, "call", e.FirstCall(t, 1).Status.Final(), true, "child's call", e.FirstCall(child, 1).Status.Final(), true)
		for _, turn := range []memory.Turn{t, child} { // how to go on from there
			res := e.FirstCall(turn, 1)
			suite.Equal(e, "call", [2]string{string(res.Status), string(res.ErrorReason)}, [2]string{"aborted", "aborted"})
			suite.Contains(e, "result", res.Result, agent.TextAborted+"\n")
			suite.Contains(e, "result", res.Result, "thread: "+res.SubAgentThreadID+"\nstatus: cancelled\nduration: ")
		}
		ms := e.Messages(grand.ThreadID)
		suite.Equal(e, "partial text", [2]any{ms[1].Content.String(), ms[1].Partial}, [2]any{"half a fin", true})
		suite.Equal(e, "task", e.Task(t.ThreadID, child.TaskID).Status, agent.TaskCancelled)
		for _, en := range e.Inbox(t.ThreadID) {
			if en.Kind == memory.EntryChild && en.State == memory.EntryWaiting {
				e.Errorf("the end of %s waits for a turn that is closed", en.ChildTurn)
			}
		}
		e.Unchanged(t.ThreadID, func() {
			suite.Equal(e, "stopped again", len(e.Close(suite.Cancelled(t, 1)).Stopped), 2)
			suite.Fails(e.S.SaveReply(e.Ctx, suite.Record(grand, 1, a, "late")))(e, agent.CodeStale)
		})
		e.Idle(t.ThreadID)
	}},
	{Name: "a child that was not started yet is dropped with its delegator", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Delegate(t, 1, "researcher")
		e.Close(suite.Failed(t, 1, agent.ReasonTimeout))
		suite.Equal(e, "entry", e.Inbox(d.ChildThread)[0].State, memory.EntryDropped)
		e.Idle(d.ChildThread)
		suite.Equal(e, "call", e.FirstCall(t, 1).Status, agent.CallAborted)
		suite.Contains(e, "result", e.FirstCall(t, 1).Result, "Tool execution aborted: the turn ran out of time\n\nagent id: ")
		suite.Contains(e, "result", e.FirstCall(t, 1).Result, "had not begun")
		task := e.Task(t.ThreadID, d.TaskID).Status
		if task != agent.TaskCancelled && task != agent.TaskFailed {
			e.Errorf("the task of a dropped child is %s", task)
		}
		e.StartsHaveEnds(t.ThreadID)
	}},
	{Name: "background children go on when their delegator is cancelled, and when it is done", Run: func(e *suite.Env) {
		for name, end := range map[string]func(t memory.Turn) memory.Closed{
			"cancelled": func(t memory.Turn) memory.Closed { return e.Close(suite.Cancelled(t, 2)) },
			"done":      func(t memory.Turn) memory.Closed { return e.Answer(t, 2, "done") },
		} {
			t := e.Started(name)
			child := e.Apart(t, 1)
			suite.Equals(e, "stopped", len(end(t).Stopped), 0, "child", e.Turn(child.ID).State, memory.TurnOpen)
			e.Answer(child, 1, "the finding")
			suite.Equal(e, "kind", e.Take(t.ThreadID).EntryKind, memory.EntryChild)
			e.Sound(t.ThreadID)
		}
	}},
}

var cancelRules = []suite.Rule{
	{Name: "a cancel marks the open turn, the first request wins", Turn: func(e *suite.Env, t memory.Turn) {
		r := e.RequestCancel(suite.CancelOf(t))
		suite.Equals(e, "turn", r.TurnID, t.ID, "to tell", r.Turns, []memory.ThreadTurn{{ThreadID: t.ThreadID, TurnID: t.ID}})
		got := e.Turn(t.ID)
		suite.Equals(e, "marked", [2]any{got.CancelRequested != nil, got.CancelBy}, [2]any{true, "alice"}, "open", got.State, memory.TurnOpen)
		e.H.Clock.Advance(time.Second)
		e.Unchanged(t.ThreadID, func() {
			again := suite.CancelOf(t)
			again.By = "bob"
			suite.Equal(e, "turn", e.RequestCancel(again).TurnID, t.ID)
		})
		suite.Equal(e, "step", suite.Must(e.S.StepState(e.Ctx, suite.Round(t, 1)))(e).Cancelled, true)
	}},
	{Name: "without a turn, or for another than the open one, there is nothing to cancel", Turn: func(e *suite.Env, t memory.Turn) {
		e.Unchanged(t.ThreadID, func() {
			r := suite.CancelOf(t)
			r.TurnID = agent.TurnID(t.ThreadID, "other", 0)
			suite.Fails(e.S.RequestCancel(e.Ctx, r))(e, agent.CodeConflict)
			r = suite.CancelOf(t)
			r.UserID = suite.OtherUser
			suite.Fails(e.S.RequestCancel(e.Ctx, r))(e, agent.CodeNotFound)
		})
		e.Answer(t, 1, "done")
		e.Unchanged(t.ThreadID, func() {
			for _, id := range []string{"", t.ID} {
				r := suite.CancelOf(t)
				r.TurnID = id
				suite.Fails(e.S.RequestCancel(e.Ctx, r))(e, agent.CodeConflict)
			}
		})
	}},
	{Name: "no model call and no tool run begins after a cancel, what runs may still end", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 2)
		a := e.BeginTool(calls[0], true)
		e.RequestCancel(suite.CancelOf(t))
		_, err := e.S.BeginModel(e.Ctx, e.ModelBegin(t, 2))
		e.IsCancel(err)
		_, err = e.S.BeginTool(e.Ctx, e.ToolBegin(calls[1], true))
		e.IsCancel(err)
		e.Ok(e.S.SaveResult(e.Ctx, suite.Result(calls[0], a, "kept")))
		e.Close(suite.Cancelled(t, 1))
		suite.Equals(e, "finished", e.Call(calls[0].ID).Result, "kept", "never started", e.Call(calls[1].ID).Status, agent.CallAborted)
	}},
	{Name: "with all, waiting messages are dropped and background descendants are told", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Apart(t, 1)
		e.Send("s1", "m2")
		e.Send("s1", "m3")
		r := suite.CancelOf(t)
		r.All = true
		got := e.RequestCancel(r)
		suite.Equals(e, "dropped, stopped, running", [3]int{got.Dropped, got.Stopped, got.Running}, [3]int{2, 1, 0}, "turns", len(got.Turns), 2)
		suite.Equal(e, "child", e.Turn(child.ID).CancelRequested != nil, true)
		suite.Equal(e, "entry", e.Entry(t.ThreadID, memory.EntryMessage, "m2").State, memory.EntryDropped)
		suite.Equal(e, "next", e.Close(suite.Cancelled(t, 2)).Next, "")
		e.Close(suite.Cancelled(child, 1))
	}},
	{Name: "with all, an idle thread's waiting messages are dropped", Run: func(e *suite.Env) {
		r := e.Send("s1", "m1")
		got := e.RequestCancel(memory.CancelRequest{UserID: suite.User, ThreadID: r.ThreadID, By: "alice", All: true})
		suite.Equal(e, "dropped", [2]any{got.Dropped, got.TurnID}, [2]any{1, ""})
		e.Idle(r.ThreadID)
		suite.Equal(e, "state", e.Send("s1", "m1").State, memory.EntryDropped)
	}},
	{Name: "repeated, a cancel returns the first outcome, also after the turn was closed", Turn: func(e *suite.Env, t memory.Turn) {
		first := e.RequestCancel(suite.CancelOf(t))
		e.Close(suite.Cancelled(t, 1))
		e.H.Clock.Advance(time.Minute)
		e.Unchanged(t.ThreadID, func() {
			for _, id := range []string{"", t.ID} {
				r := suite.CancelOf(t)
				r.TurnID, r.By = id, "bob"
				again := e.RequestCancel(r)
				suite.Equal(e, "first", [3]any{again.TurnID, again.By, again.At}, [3]any{t.ID, "alice", first.At})
				suite.Equal(e, "repeated", [2]any{again.Repeated, len(again.Turns)}, [2]any{true, 0})
			}
		})
		e.Send("s1", "m2")
		e.Answer(e.Take(t.ThreadID), 1, "done")
		r := suite.CancelOf(t)
		suite.Equal(e, "by name", e.RequestCancel(r).TurnID, t.ID)
		r.TurnID = ""
		suite.Fails(e.S.RequestCancel(e.Ctx, r))(e, agent.CodeConflict)
	}},
	{Name: "a cancel says how many background sub-agents go on", Turn: func(e *suite.Env, t memory.Turn) {
		e.Apart(t, 1)
		e.Background(t, 2, "general") // not begun
		e.SaveRound(t, 2)
		suite.Equal(e, "running", e.RequestCancel(suite.CancelOf(t)).Running, 2)
		r := suite.CancelOf(t)
		r.All = true
		got := e.RequestCancel(r)
		suite.Equals(e, "stopped, running", [2]int{got.Stopped, got.Running}, [2]int{2, 0}, "again", e.RequestCancel(r).Stopped, 0)
	}},
	{Name: "with all, the ends of what it stops open no turn and are told with the next message", Run: func(e *suite.Env) {
		for i, idle := range []bool{false, true} {
			t := e.Started(fmt.Sprint("s", i))
			child := e.Apart(t, 1)
			waits := e.Background(t, 2, "general") // not begun
			e.SaveRound(t, 2)
			ended := e.Apart(t, 3)
			r := memory.CancelRequest{UserID: suite.User, ThreadID: t.ThreadID, By: "alice", All: true}
			if idle {
				e.Answer(t, 4, "on their way")
				e.RequestCancel(r)
				e.Close(suite.Cancelled(ended, 1))
			} else {
				e.Answer(ended, 1, "the finding") // nobody has read it yet
				e.RequestCancel(r)
			}
			e.Close(suite.Cancelled(child, 1))
			if !idle {
				suite.Equal(e, "next", e.Close(suite.Cancelled(t, 4)).Next, "")
			}
			e.Idle(waits.ChildThread)
			suite.Equal(e, "task of what had not begun", e.Task(t.ThreadID, waits.TaskID).Status, agent.TaskCancelled)
			e.QuietAfter(t, 3)
		}
	}},
	{Name: "a cancelled turn ends as cancelled in whatever it was doing", Run: func(e *suite.Env) {
		for i, prepare := range []func(t memory.Turn){
			func(memory.Turn) {},
			func(t memory.Turn) { e.Begin(t, 1) },
			func(t memory.Turn) {
				e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, e.Begin(t, 1), 0, "half")))
			},
			func(t memory.Turn) { e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, e.Begin(t, 1)))) },
			func(t memory.Turn) { e.Reply(t, 1, "whole, but not saved") },
			func(t memory.Turn) { e.Calls(t, 1, 2) },
			func(t memory.Turn) { e.BeginTool(e.Calls(t, 1, 2)[1], false) },
			func(t memory.Turn) { e.RunTool(e.Calls(t, 1, 1)[0], "ran") },
			func(t memory.Turn) { e.RunTool(e.Calls(t, 1, 1)[0], "ran"); e.SaveRound(t, 1) },
			func(t memory.Turn) { e.Gated(t, 1, agent.GateAsk, agent.GateAuto); e.Ask(t, 1) },
			func(t memory.Turn) { e.Delegate(t, 1, "researcher") },
			func(t memory.Turn) { e.Child(t, 1) },
			func(t memory.Turn) { e.Answer(e.Child(t, 1), 1, "x") },
		} {
			t := e.Started(fmt.Sprintf("s%d", i))
			prepare(t)
			e.RequestCancel(suite.CancelOf(t))
			e.Close(suite.Cancelled(t, 1))
			e.Unchanged(t.ThreadID, func() { e.Close(suite.Cancelled(t, 1)) })
			th, turn := e.Thread(t.ThreadID), e.Turn(t.ID)
			suite.Equal(e, "thread", [2]string{string(th.Status), th.OpenTurnID}, [2]string{"cancelled", ""})
			suite.Equal(e, "turn", [2]string{string(turn.State), string(turn.Outcome)}, [2]string{"closed", "cancelled"})
			ev := e.EventsOf(t.ThreadID, agent.EventError)
			suite.Equals(e, "error events", len(ev), 1, "code", ev[0]["code"], any("cancelled"))
			for _, c := range suite.Must(e.S.ToolCalls(e.Ctx, t.ThreadID))(e) {
				suite.Equal(e, "final", c.Status.Final(), true)
			}
			e.Sound(t.ThreadID)
			e.Send(fmt.Sprintf("s%d", i), "m2")
			e.Answer(e.Take(t.ThreadID), 1, "usable again")
			e.Sound(t.ThreadID)
		}
	}},
}

var cancelAllRules = []suite.Rule{
	{Name: "with all, the end of a background grandchild is quiet though it lands on a foreground child at work", Run: func(e *suite.Env) {
		for _, done := range []string{"before the request, unread", "before it heard of the request", "never"} {
			t := e.Started(strings.ReplaceAll(strings.ReplaceAll(done, ",", ""), " ", "-"))
			child := e.Child(t, 1)
			grand := e.Apart(child, 1)
			e.Reply(grand, 1, "the finding")
			end := suite.Completed(grand, 1)
			if done == "never" {
				end = suite.Cancelled(grand, 1)
			}
			if done == "before the request, unread" {
				e.Close(end)
			}
			e.AllOf(t)
			e.Close(end)
			c := e.Close(suite.Cancelled(t, 1))
			suite.Equals(e, "next", c.Next, "", "child", e.Turn(child.ID).Outcome, agent.ThreadCancelled)
			e.QuietAfter(t, 1)
		}
	}},
	{Name: "a stopped child that ends while the next message is answered is told before the next model call, or stays quiet", Turn: func(e *suite.Env, t memory.Turn) {
		var children []memory.Turn
		for step := 1; step <= 2; step++ {
			children = append(children, e.Take(e.Background(t, step, "general").ChildThread))
			e.SaveRound(t, step)
		}
		e.AllOf(t)
		e.Close(suite.Cancelled(t, 3))
		next := e.Take(e.Send("s1", "m2").ThreadID)
		e.Calls(next, 1, 1)
		e.RunTool(e.FirstCall(next, 1), "ran")
		e.SaveRound(next, 1)
		e.Close(suite.Cancelled(children[0], 1))
		start := suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(next, 2)))(e)
		suite.Equal(e, "told", start.Steered, 1)
		e.Close(suite.Cancelled(children[1], 1))
		suite.Equal(e, "next", e.Answer2(next, 2, start.Attempt, "fine").Next, "")
		e.QuietAfter(t, 1)
	}},
	{Name: "nothing is delegated below a turn that is to be cancelled", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		r := suite.Delegation(e.Assigns(child, 1, 1)[0], "general")
		r.Background = true
		e.AllOf(t)
		_, err := e.S.OpenDelegation(e.Ctx, r)
		e.IsCancel(err)
		e.Close(suite.Cancelled(t, 1))
		suite.Equal(e, "sub-agents", len(suite.Must(e.S.Children(e.Ctx, child.ThreadID))(e)), 0)
	}},
}

var usageRules = []suite.Rule{
	{Name: "what children used is in the totals of all above them as soon as they end, once", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Apart(child, 1)
		late := e.Apart(child, 2)
		total := func(th string) int64 { return e.Thread(th).TotalTokens }
		one := suite.Usage().TotalTokens
		before := total(child.ThreadID)
		e.Answer(grand, 1, "the finding")
		suite.Equal(e, "the child's, before it reads the end", total(child.ThreadID)-before, one)
		e.Answer(child, 3, "I have a helper")
		root := total(t.ThreadID)
		suite.Equal(e, "the root's, before it takes the result", root, total(child.ThreadID)+one)
		e.Taken(t, 1)
		e.Answer(t, 2, "done")
		suite.Equal(e, "taken", total(t.ThreadID), root+one)
		before = total(child.ThreadID)
		e.Answer(late, 1, "a late finding")
		suite.Equals(e, "the child's, which is idle", total(child.ThreadID)-before, one, "the root's, which is idle", total(t.ThreadID), root+2*one)
		next := e.Take(t.ThreadID)
		suite.Equal(e, "the turn that tells it", next.Usage.TotalTokens, int64(0))
		e.Answer(next, 1, "the child says so")
		suite.Equal(e, "told", total(t.ThreadID), root+3*one)
	}},
	{Name: "with all, what the stopped children used is in the totals before anybody writes again", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Apart(t, 1)
		e.Answer(t, 2, "on its way")
		e.Calls(child, 1, 1)
		before := e.Thread(t.ThreadID).TotalTokens
		e.RequestCancel(memory.CancelRequest{UserID: suite.User, ThreadID: t.ThreadID, By: "alice", All: true})
		e.Close(suite.Cancelled(child, 1))
		suite.Equal(e, "total", e.Thread(t.ThreadID).TotalTokens-before, suite.Usage().TotalTokens)
		e.QuietAfter(t, 1)
	}},
}

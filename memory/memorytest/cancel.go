package memorytest

import (
	"errors"
	"fmt"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func cancelOf(t memory.Turn) memory.CancelRequest {
	return memory.CancelRequest{UserID: user, ThreadID: t.ThreadID, TurnID: t.ID, By: "alice"}
}

func (e *env) requestCancel(r memory.CancelRequest) memory.CancelResult {
	e.Helper()
	return must[memory.CancelResult](e)(e.s.RequestCancel(e.ctx, r))
}

var cascadeRules = []rule{
	{"a cancelled turn closes its foreground descendants with it", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.take(e.delegate(child, 1, "general").ChildThread)
		a := e.begin(grand, 1)
		e.ok(e.s.AppendChunk(e.ctx, chunk(grand, 1, a, 0, "half a fin")))
		c := e.close(cancelled(t, 1))
		equal(e, "stopped", len(c.Stopped), 2)
		for _, turn := range []memory.Turn{child, grand} {
			got := e.turn(turn.ID)
			equal(e, "turn", [2]string{string(got.State), string(got.Outcome)}, [2]string{"closed", "cancelled"})
			equal(e, "thread", e.thread(turn.ThreadID).Status, agent.ThreadCancelled)
		}
		equal(e, "call", e.firstCall(t, 1).Status.Final(), true)
		equal(e, "child's call", e.firstCall(child, 1).Status.Final(), true)
		for _, turn := range []memory.Turn{t, child} { // how to go on from there
			res := e.firstCall(turn, 1)
			equal(e, "call", [2]string{string(res.Status), string(res.ErrorReason)}, [2]string{"aborted", "aborted"})
			contains(e, "result", res.Result, agent.TextAborted+"\n")
			contains(e, "result", res.Result, "thread: "+res.SubAgentThreadID+"\nstatus: cancelled\nduration: ")
		}
		ms := e.messages(grand.ThreadID)
		equal(e, "partial text", [2]any{ms[1].Content.String(), ms[1].Partial}, [2]any{"half a fin", true})
		equal(e, "task", e.task(t.ThreadID, child.TaskID).Status, agent.TaskCancelled)
		for _, en := range e.inbox(t.ThreadID) {
			if en.Kind == memory.EntryChild && en.State == memory.EntryWaiting {
				e.Errorf("the end of %s waits for a turn that is closed", en.ChildTurn)
			}
		}
		e.unchanged(t.ThreadID, func() {
			equal(e, "stopped again", len(e.close(cancelled(t, 1)).Stopped), 2)
			_, err := e.s.SaveReply(e.ctx, record(grand, 1, a, "late"))
			e.stale(err)
		})
		claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID}))
		equal(e, "nothing to take", claim.Turn == nil, true)
		e.sound(t.ThreadID)
	}},
	{"a child that was not started yet is dropped with its delegator", func(e *env) {
		t := e.started("s1")
		d := e.delegate(t, 1, "researcher")
		e.close(failed(t, 1, agent.ReasonTimeout))
		equal(e, "entry", e.inbox(d.ChildThread)[0].State, memory.EntryDropped)
		claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: d.ChildThread}))
		equal(e, "nothing to take", claim.Turn == nil, true)
		equal(e, "call", e.firstCall(t, 1).Status, agent.CallAborted)
		contains(e, "result", e.firstCall(t, 1).Result, "Tool execution aborted: the turn ran out of time\n\nagent id: ")
		contains(e, "result", e.firstCall(t, 1).Result, "had not begun")
		task := e.task(t.ThreadID, d.TaskID).Status
		if task != agent.TaskCancelled && task != agent.TaskFailed {
			e.Errorf("the task of a dropped child is %s", task)
		}
		e.sound(t.ThreadID)
	}},
	{"the end of a foreground child that nobody took is dropped when the delegator fails", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		e.answer(child, 1, "the finding")
		e.close(failed(t, 1, agent.ReasonError))
		for _, en := range e.inbox(t.ThreadID) {
			if en.Kind == memory.EntryChild && en.State == memory.EntryWaiting {
				e.Errorf("entry %s still waits", en.ID)
			}
		}
		claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID}))
		equal(e, "nothing to take", claim.Turn == nil, true)
		e.sound(t.ThreadID)
	}},
	{"background children go on when their delegator is cancelled", func(e *env) {
		t := e.started("s1")
		child := e.take(e.background(t, 1, "researcher").ChildThread)
		c := e.close(cancelled(t, 1))
		equal(e, "stopped", len(c.Stopped), 0)
		equal(e, "child", e.turn(child.ID).State, memory.TurnOpen)
		e.answer(child, 1, "the finding")
		equal(e, "kind", e.take(t.ThreadID).EntryKind, memory.EntryChild)
		e.sound(t.ThreadID)
	}},
	{"a completed turn leaves background children alone", func(e *env) {
		t := e.started("s1")
		child := e.take(e.background(t, 1, "researcher").ChildThread)
		e.saveRound(t, 1)
		equal(e, "stopped", len(e.answer(t, 2, "done").Stopped), 0)
		equal(e, "child", e.turn(child.ID).State, memory.TurnOpen)
	}},
}

var cancelRules = []rule{
	{"a cancel marks the open turn, the first request wins", func(e *env) {
		t := e.started("s1")
		r := e.requestCancel(cancelOf(t))
		equal(e, "turn", r.TurnID, t.ID)
		equal(e, "to tell", r.Turns, []memory.ThreadTurn{{ThreadID: t.ThreadID, TurnID: t.ID}})
		got := e.turn(t.ID)
		equal(e, "marked", [2]any{got.CancelRequested != nil, got.CancelBy}, [2]any{true, "alice"})
		equal(e, "open", got.State, memory.TurnOpen)
		e.h.Clock.Advance(time.Second)
		e.unchanged(t.ThreadID, func() {
			again := cancelOf(t)
			again.By = "bob"
			equal(e, "turn", e.requestCancel(again).TurnID, t.ID)
		})
		equal(e, "step", must[memory.StepState](e)(e.s.StepState(e.ctx, round(t, 1))).Cancelled, true)
	}},
	{"without a turn, or for another than the open one, there is nothing to cancel", func(e *env) {
		t := e.started("s1")
		e.unchanged(t.ThreadID, func() {
			r := cancelOf(t)
			r.TurnID = agent.TurnID(t.ThreadID, "other", 0)
			_, err := e.s.RequestCancel(e.ctx, r)
			e.code(err, agent.CodeConflict)
			r = cancelOf(t)
			r.UserID = otherUser
			_, err = e.s.RequestCancel(e.ctx, r)
			e.code(err, agent.CodeNotFound)
		})
		e.answer(t, 1, "done")
		e.unchanged(t.ThreadID, func() {
			for _, id := range []string{"", t.ID} {
				r := cancelOf(t)
				r.TurnID = id
				_, err := e.s.RequestCancel(e.ctx, r)
				e.code(err, agent.CodeConflict)
			}
		})
	}},
	{"no model call and no tool run begins after a cancel, what runs may still end", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 2)
		a := e.beginTool(calls[0], true)
		e.requestCancel(cancelOf(t))
		_, err := e.s.BeginModel(e.ctx, e.modelBegin(t, 2))
		e.isCancel(err)
		_, err = e.s.BeginTool(e.ctx, e.toolBegin(calls[1], true))
		e.isCancel(err)
		e.ok(e.s.SaveResult(e.ctx, result(calls[0], a, "kept")))
		e.close(cancelled(t, 1))
		equal(e, "finished", e.call(calls[0].ID).Result, "kept")
		equal(e, "never started", e.call(calls[1].ID).Status, agent.CallAborted)
		e.sound(t.ThreadID)
	}},
	{"queued messages stay when a turn is cancelled, and the next is taken", func(e *env) {
		t := e.started("s1")
		m2 := e.send("s1", "m2")
		e.requestCancel(cancelOf(t))
		equal(e, "next", e.close(cancelled(t, 1)).Next, m2.TurnID)
		equal(e, "no cancel pending", e.turn(m2.TurnID).CancelRequested == nil, true)
		e.answer(e.turn(m2.TurnID), 1, "fine")
		e.sound(t.ThreadID)
	}},
	{"with all, waiting messages are dropped and background descendants are told", func(e *env) {
		t := e.started("s1")
		child := e.take(e.background(t, 1, "researcher").ChildThread)
		e.saveRound(t, 1)
		e.send("s1", "m2")
		e.send("s1", "m3")
		r := cancelOf(t)
		r.All = true
		got := e.requestCancel(r)
		equal(e, "dropped, stopped, running", [3]int{got.Dropped, got.Stopped, got.Running}, [3]int{2, 1, 0})
		equal(e, "turns", len(got.Turns), 2)
		equal(e, "child", e.turn(child.ID).CancelRequested != nil, true)
		equal(e, "entry", e.entry(t.ThreadID, memory.EntryMessage, "m2").State, memory.EntryDropped)
		equal(e, "next", e.close(cancelled(t, 2)).Next, "")
		e.close(cancelled(child, 1))
		e.sound(t.ThreadID)
	}},
	{"with all, an idle thread's waiting messages are dropped", func(e *env) {
		r := e.send("s1", "m1")
		got := e.requestCancel(memory.CancelRequest{UserID: user, ThreadID: r.ThreadID, By: "alice", All: true})
		equal(e, "dropped", [2]any{got.Dropped, got.TurnID}, [2]any{1, ""})
		claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: r.ThreadID}))
		equal(e, "nothing to take", claim.Turn == nil, true)
		equal(e, "state", e.send("s1", "m1").State, memory.EntryDropped)
	}},
	{"repeated, a cancel returns the first outcome, also after the turn was closed", func(e *env) {
		t := e.started("s1")
		first := e.requestCancel(cancelOf(t))
		e.close(cancelled(t, 1))
		e.h.Clock.Advance(time.Minute)
		e.unchanged(t.ThreadID, func() {
			for _, id := range []string{"", t.ID} {
				r := cancelOf(t)
				r.TurnID, r.By = id, "bob"
				again := e.requestCancel(r)
				equal(e, "first", [3]any{again.TurnID, again.By, again.At}, [3]any{t.ID, "alice", first.At})
				equal(e, "repeated", [2]any{again.Repeated, len(again.Turns)}, [2]any{true, 0})
			}
		})
		e.send("s1", "m2")
		e.answer(e.take(t.ThreadID), 1, "done")
		r := cancelOf(t)
		equal(e, "by name", e.requestCancel(r).TurnID, t.ID)
		r.TurnID = ""
		_, err := e.s.RequestCancel(e.ctx, r)
		e.code(err, agent.CodeConflict)
	}},
	{"a cancel says how many background sub-agents go on", func(e *env) {
		t := e.started("s1")
		e.take(e.background(t, 1, "researcher").ChildThread)
		e.saveRound(t, 1)
		e.background(t, 2, "general") // not begun
		e.saveRound(t, 2)
		equal(e, "running", e.requestCancel(cancelOf(t)).Running, 2)
		r := cancelOf(t)
		r.All = true
		got := e.requestCancel(r)
		equal(e, "stopped, running", [2]int{got.Stopped, got.Running}, [2]int{2, 0})
		equal(e, "again", e.requestCancel(r).Stopped, 0)
	}},
	{"with all, the ends of what it stops open no turn and are told with the next message", func(e *env) {
		for i, idle := range []bool{false, true} {
			t := e.started(fmt.Sprint("s", i))
			child := e.take(e.background(t, 1, "researcher").ChildThread)
			e.saveRound(t, 1)
			e.background(t, 2, "general") // not begun
			e.saveRound(t, 2)
			ended := e.take(e.background(t, 3, "general").ChildThread)
			e.saveRound(t, 3)
			r := memory.CancelRequest{UserID: user, ThreadID: t.ThreadID, By: "alice", All: true}
			if idle {
				e.answer(t, 4, "on their way")
				e.requestCancel(r)
				e.close(cancelled(ended, 1))
			} else {
				e.answer(ended, 1, "the finding") // nobody has read it yet
				e.requestCancel(r)
			}
			e.close(cancelled(child, 1))
			if !idle {
				equal(e, "next", e.close(cancelled(t, 4)).Next, "")
			}
			e.h.Clock.Advance(time.Minute)
			_, due := e.overdue(time.Second)[t.ThreadID]
			equal(e, "overdue", due, false)
			claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID}))
			equal(e, "nothing to take", claim.Turn == nil, true)
			e.sound(t.ThreadID)
			before := len(e.messages(t.ThreadID))
			next := e.take(e.send(fmt.Sprint("s", i), "m2").ThreadID)
			ms := e.messages(t.ThreadID)[before:]
			equal(e, "three ends and the message", len(ms), 4)
			for _, m := range ms[:3] {
				contains(e, "source", m.Source, "agent:agent:")
			}
			equal(e, "the message is last", ms[3].Content.String(), "text of m2")
			e.answer(next, 1, "fine")
			for _, en := range e.inbox(t.ThreadID) {
				equal(e, en.ID, en.State != memory.EntryWaiting, true)
			}
			e.sound(t.ThreadID)
		}
	}},
	{"a cancelled turn ends as cancelled in whatever it was doing", func(e *env) {
		for i, prepare := range []func(t memory.Turn){
			func(memory.Turn) {},
			func(t memory.Turn) { e.begin(t, 1) },
			func(t memory.Turn) {
				e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, e.begin(t, 1), 0, "half")))
			},
			func(t memory.Turn) { e.ok(e.s.FailModel(e.ctx, failure(t, 1, e.begin(t, 1)))) },
			func(t memory.Turn) { e.reply(t, 1, "whole, but not saved") },
			func(t memory.Turn) { e.calls(t, 1, 2) },
			func(t memory.Turn) { e.beginTool(e.calls(t, 1, 2)[1], false) },
			func(t memory.Turn) { e.runTool(e.calls(t, 1, 1)[0], "ran") },
			func(t memory.Turn) { e.runTool(e.calls(t, 1, 1)[0], "ran"); e.saveRound(t, 1) },
			func(t memory.Turn) { e.gated(t, 1, agent.GateAsk, agent.GateAuto); e.ask(t, 1) },
			func(t memory.Turn) { e.delegate(t, 1, "researcher") },
			func(t memory.Turn) { e.take(e.delegate(t, 1, "researcher").ChildThread) },
			func(t memory.Turn) { e.answer(e.take(e.delegate(t, 1, "researcher").ChildThread), 1, "x") },
		} {
			t := e.started(fmt.Sprintf("s%d", i))
			prepare(t)
			e.requestCancel(cancelOf(t))
			e.close(cancelled(t, 1))
			e.unchanged(t.ThreadID, func() { e.close(cancelled(t, 1)) })
			th, turn := e.thread(t.ThreadID), e.turn(t.ID)
			equal(e, "thread", [2]string{string(th.Status), th.OpenTurnID}, [2]string{"cancelled", ""})
			equal(e, "turn", [2]string{string(turn.State), string(turn.Outcome)}, [2]string{"closed", "cancelled"})
			ev := e.eventsOf(t.ThreadID, agent.EventError)
			equal(e, "error events", len(ev), 1)
			equal(e, "code", ev[0]["code"], any("cancelled"))
			for _, c := range must[[]agent.ToolCall](e)(e.s.ToolCalls(e.ctx, t.ThreadID)) {
				equal(e, "final", c.Status.Final(), true)
			}
			e.sound(t.ThreadID)
			e.send(fmt.Sprintf("s%d", i), "m2")
			e.answer(e.take(t.ThreadID), 1, "usable again")
			e.sound(t.ThreadID)
		}
	}},
}

func (e *env) isCancel(err error) {
	e.Helper()
	e.code(err, agent.CodeConflict)
	if !errors.Is(err, memory.ErrCancelRequested) {
		e.Errorf("errors.Is(%v, memory.ErrCancelRequested) does not hold", err)
	}
}

package memorytest

import (
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// background opens a step whose one call is delegated in the background.
func (e *env) background(t memory.Turn, step int, agentType string) memory.Delegation {
	e.Helper()
	r := delegation(e.assigns(t, step, 1)[0], agentType)
	r.Background = true
	d := e.open(r)
	equal(e, "background", [2]bool{d.Refused, d.Background}, [2]bool{false, true})
	if c := e.call(r.CallID); !c.Status.Final() {
		e.ok(e.s.SaveResult(e.ctx, result(c, c.Attempts, "started "+d.ChildThread)))
	}
	return d
}

var backgroundRules = []rule{
	{"a background delegation has its result at once, and the turn can end before the child", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		equal(e, "call", e.firstCall(t, 1).Status, agent.CallSuccess)
		e.saveRound(t, 1)
		e.answer(t, 2, "it is on its way")
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadCompleted)
		equal(e, "task", e.task(t.ThreadID, d.TaskID).Status, agent.TaskPending)
		child := e.take(d.ChildThread)
		equal(e, "background", child.Background, true)
		equal(e, "task", e.task(t.ThreadID, d.TaskID).Status, agent.TaskRunning)
		e.sound(t.ThreadID)
	}},
	{"its end goes into a busy delegator's turn before the next model call, once", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		child := e.take(d.ChildThread)
		e.answer(child, 1, "the finding")
		equal(e, "task", e.task(t.ThreadID, d.TaskID).Status, agent.TaskSuccess)
		before := len(e.messages(t.ThreadID))
		b := e.modelBegin(t, 2)
		st := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
		equal(e, "steered", st.Steered, 1)
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), before+1)
		contains(e, "message", ms[before].Content.String(), "the finding")
		equal(e, "entry", e.entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryTaken)
		b.Fence.Number = 2
		st = must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
		equal(e, "messages", len(e.messages(t.ThreadID)), before+1)
		equal(e, "next", e.answer2(t, 2, st.Attempt, "the child says so").Next, "")
		equal(e, "responses", len(e.eventsOf(t.ThreadID, agent.EventToolResponse)), 1)
		e.sound(t.ThreadID)
	}},
	{"its end after the last model call is the delegator's next turn", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		child := e.take(d.ChildThread)
		e.reply(t, 2, "it is on its way")
		e.answer(child, 1, "the finding")
		next := e.close(completed(t, 2)).Next
		if next == "" {
			e.Fatalf("the close took nothing")
		}
		equal(e, "kind", e.turn(next).EntryKind, memory.EntryChild)
		e.answer(e.turn(next), 1, "the child says so")
		e.sound(t.ThreadID)
	}},
	{"its end opens a turn of an idle main delegator", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		e.answer(t, 2, "it is on its way")
		child := e.take(d.ChildThread)
		c := e.answer(child, 1, "the finding")
		if c.Notify == nil || c.Notify.ThreadID != t.ThreadID {
			e.Fatalf("the close notifies %+v, want the idle %s", c.Notify, t.ThreadID)
		}
		equal(e, "entry", e.entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryWaiting)
		next := e.take(t.ThreadID)
		equal(e, "kind", next.EntryKind, memory.EntryChild)
		ms := e.messages(t.ThreadID)
		contains(e, "message", ms[len(ms)-1].Content.String(), "the finding")
		equal(e, "once", must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID})).Turn.ID, next.ID)
		e.answer(next, 1, "the child says so")
		e.sound(t.ThreadID)
	}},
	{"its end under an idle sub-agent goes to the nearest ancestor with an open turn", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.background(child, 1, "general")
		e.saveRound(child, 1)
		e.answer(child, 2, "I have a helper")
		e.takeResult(e.firstCall(t, 1))
		e.saveRound(t, 1)
		g := e.take(grand.ChildThread)
		c := e.answer(g, 1, "deep finding")
		equal(e, "notified", c.Notify.ThreadID, t.ThreadID)
		equal(e, "entry", e.entry(t.ThreadID, memory.EntryChild, g.ID).State, memory.EntryWaiting)
		equal(e, "steered", must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 2))).Steered, 1)
		ms := e.messages(t.ThreadID)
		contains(e, "report", ms[len(ms)-1].Content.String(), "\nstarted by: "+e.thread(child.ThreadID).AgentID+"\n")
		e.sound(t.ThreadID)
	}},
	{"whoever is told of another's sub-agent is told who alone can resume it", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.take(e.background(child, 1, "general").ChildThread)
		e.saveRound(child, 1)
		great := e.take(e.background(grand, 1, "general").ChildThread)
		e.saveRound(grand, 1)
		e.close(failed(great, 1, agent.ReasonError)) // grand is at work, but reads it no more
		e.close(failed(grand, 2, agent.ReasonError)) // the same of child
		e.close(failed(child, 2, agent.ReasonError))
		e.takeResult(e.firstCall(t, 1))
		e.saveRound(t, 1)
		equal(e, "told", must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 2))).Steered, 2)
		id := func(turn memory.Turn) string { return e.thread(turn.ThreadID).AgentID }
		text := map[string]string{}
		for _, m := range e.messages(t.ThreadID) {
			text[m.Source] = m.Content.String()
		}
		contains(e, "of grand", text["agent:"+grand.ThreadID], "Only the agent that started it can resume it: to go on from there, resume "+id(child)+" and tell it to.")
		contains(e, "of great", text["agent:"+great.ThreadID], "resume "+id(child)+" and tell it to have "+id(grand)+" do that.")
		e.sound(t.ThreadID)
	}},
	{"an end that was read with task_output is reported in short", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		child := e.take(d.ChildThread)
		read := e.reply(t, 2, "", agent.NewCall("x", agent.ToolTaskOutput, "{}")).Calls[0]
		e.answer(child, 1, "the finding")
		text := e.entry(t.ThreadID, memory.EntryChild, child.ID).Content.String()
		e.runTool(read, strings.Replace(text, "[Background agent researcher ended: success]", "[Agent researcher: success]", 1))
		e.saveRound(t, 2)
		equal(e, "told", must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 3))).Steered, 1)
		ms := e.messages(t.ThreadID)
		report := ms[len(ms)-1].Content.String()
		contains(e, "report", report, "[Background agent researcher ended: success]")
		contains(e, "report", report, "You have read its result with task_output already.")
		equal(e, "the finding, again", strings.Contains(report, "the finding"), false)
		e.sound(t.ThreadID)
	}},
	{"sub-agents and tasks are listed in the order of their calls, in whatever order they were made", func(e *env) {
		t := e.started("s1")
		calls := e.assigns(t, 1, 3)
		var want, got, tasks []string
		for _, i := range []int{2, 0, 1} {
			e.h.Clock.Advance(time.Second)
			e.open(delegation(calls[i], "general"))
		}
		for _, c := range calls {
			want = append(want, e.call(c.ID).SubAgentThreadID)
		}
		for _, th := range must[[]agent.Thread](e)(e.s.Children(e.ctx, t.ThreadID)) {
			got = append(got, th.ID)
		}
		for _, k := range must[[]agent.Task](e)(e.s.Tasks(e.ctx, t.ThreadID)) {
			tasks = append(tasks, k.SubAgentID)
		}
		equal(e, "sub-agents", got, want)
		equal(e, "tasks", tasks, want)
	}},
	{"its end goes to the root when no ancestor has an open turn", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.background(child, 1, "general")
		e.saveRound(child, 1)
		e.answer(child, 2, "I have a helper")
		e.takeResult(e.firstCall(t, 1))
		e.saveRound(t, 1)
		e.answer(t, 2, "done")
		g := e.take(grand.ChildThread)
		e.answer(g, 1, "deep finding")
		equal(e, "entry", e.entry(t.ThreadID, memory.EntryChild, g.ID).State, memory.EntryWaiting)
		equal(e, "kind", e.take(t.ThreadID).EntryKind, memory.EntryChild)
		e.sound(t.ThreadID)
	}},
	{"its end goes to a sub-agent that delegated it and has an open turn", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.background(child, 1, "general")
		e.saveRound(child, 1)
		g := e.take(grand.ChildThread)
		equal(e, "notified", e.answer(g, 1, "deep finding").Notify.ThreadID, child.ThreadID)
		equal(e, "steered", must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(child, 2))).Steered, 1)
		e.sound(t.ThreadID)
	}},
	{"a background child that failed is reported too", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		e.answer(t, 2, "it is on its way")
		child := e.take(d.ChildThread)
		e.close(failed(child, 1, agent.ReasonTimeout))
		equal(e, "task", e.task(t.ThreadID, d.TaskID).Status, agent.TaskFailed)
		equal(e, "kind", e.take(t.ThreadID).EntryKind, memory.EntryChild)
		e.sound(t.ThreadID)
	}},
	{"several background children that end together are reported once each", func(e *env) {
		t := e.started("s1")
		calls := e.assigns(t, 1, 3)
		var turns []memory.Turn
		for _, c := range calls {
			r := delegation(c, "researcher")
			r.Background = true
			d := e.open(r)
			if got := e.call(c.ID); !got.Status.Final() {
				e.ok(e.s.SaveResult(e.ctx, result(got, got.Attempts, "started")))
			}
			turns = append(turns, e.take(d.ChildThread))
		}
		e.saveRound(t, 1)
		for _, child := range turns {
			e.answer(child, 1, "finding of "+child.ThreadID)
		}
		equal(e, "steered", must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 2))).Steered, 3)
		for _, child := range turns {
			n := 0
			for _, m := range e.messages(t.ThreadID) {
				if m.Role == agent.RoleUser && m.Source == "agent:"+child.ThreadID {
					n++
				}
			}
			if n > 1 {
				e.Errorf("the end of %s stands in the thread %d times", child.ThreadID, n)
			}
			equal(e, "entry", e.entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryTaken)
		}
		e.sound(t.ThreadID)
	}},
}

// childDone runs one foreground delegation of step 1 to its end.
func (e *env) childDone(t memory.Turn, step int) memory.Delegation {
	e.Helper()
	d := e.delegate(t, step, "researcher")
	e.answer(e.take(d.ChildThread), 1, "the finding")
	equal(e, "done", e.takeResult(e.firstCall(t, step)).Done, true)
	e.saveRound(t, step)
	return d
}

func resume(c agent.ToolCall, id string) memory.DelegationRequest {
	r := delegation(c, "researcher")
	r.Resume, r.Task = id, "go on"
	return r
}

var resumeRules = []rule{
	{"a resume is a new turn and task of the same thread", func(e *env) {
		t := e.started("s1")
		first := e.childDone(t, 1)
		c := e.assigns(t, 2, 1)[0]
		d := e.open(resume(c, first.ChildThread))
		equal(e, "refused", d.Refused, false)
		equal(e, "thread", d.ChildThread, first.ChildThread)
		if d.ChildTurn == first.ChildTurn || d.TaskID == first.TaskID {
			e.Fatalf("turn or task is the first one's: %+v", d)
		}
		e.unchanged(t.ThreadID, func() { equal(e, "repeated", e.open(resume(c, first.ChildThread)), d) })
		equal(e, "children", len(e.children(t.ThreadID)), 1)
		th := e.thread(d.ChildThread)
		equal(e, "created by", th.ParentToolCallID, agent.CallID(t.ID, 1, 0))
		equal(e, "latest task", th.TaskID, d.TaskID)
		child := e.take(d.ChildThread)
		equal(e, "turn", child.ID, d.ChildTurn)
		ms := e.messages(d.ChildThread)
		equal(e, "history first", []string{ms[0].Content.String(), ms[1].Content.String(), ms[2].Content.String()}, []string{"find out", "the finding", "go on"})
		e.answer(child, 1, "more")
		equal(e, "done", e.takeResult(c).Done, true)
		contains(e, "result", e.call(c.ID).Result, "more")
		equal(e, "event links", e.eventsOf(t.ThreadID, agent.EventToolCall)[1]["sub_agent_thread_id"], any(d.ChildThread))
		e.saveRound(t, 2)
		e.sound(t.ThreadID)
	}},
	{"an agent id names the thread as well as its full id", func(e *env) {
		t := e.started("s1")
		first := e.childDone(t, 1)
		parsed, err := agent.ParseThreadID(first.ChildThread)
		e.ok(err)
		d := e.open(resume(e.assigns(t, 2, 1)[0], parsed.AgentID))
		equal(e, "thread", d.ChildThread, first.ChildThread)
	}},
	{"a sub-agent that failed or was cancelled can be resumed", func(e *env) {
		t := e.started("s1")
		d := e.delegate(t, 1, "researcher")
		e.close(failed(e.take(d.ChildThread), 1, agent.ReasonTerminated))
		e.takeResult(e.firstCall(t, 1))
		e.saveRound(t, 1)
		e.open(resume(e.assigns(t, 2, 1)[0], d.ChildThread))
		e.close(cancelled(e.take(d.ChildThread), 1))
		e.takeResult(e.firstCall(t, 2))
		e.saveRound(t, 2)
		e.open(resume(e.assigns(t, 3, 1)[0], d.ChildThread))
		e.answer(e.take(d.ChildThread), 1, "at last")
		equal(e, "done", e.takeResult(e.firstCall(t, 3)).Done, true)
		equal(e, "status", e.thread(d.ChildThread).Status, agent.ThreadCompleted)
		e.saveRound(t, 3)
		e.sound(t.ThreadID)
	}},
	{"a later turn of the same parent can resume", func(e *env) {
		t := e.started("s1")
		d := e.childDone(t, 1)
		e.answer(t, 2, "done")
		e.send("s1", "m2")
		second := e.take(t.ThreadID)
		equal(e, "thread", e.open(resume(e.assigns(second, 1, 1)[0], d.ChildThread)).ChildThread, d.ChildThread)
		child := e.take(d.ChildThread)
		equal(e, "delegator turn", child.DelegatorTurn, second.ID)
		e.sound(t.ThreadID)
	}},
	{"two resumes at once are serialised and lose nothing", func(e *env) {
		t := e.started("s1")
		d := e.childDone(t, 1)
		calls := e.assigns(t, 2, 2)
		for _, c := range calls {
			equal(e, "refused", e.open(resume(c, d.ChildThread)).Refused, false)
		}
		child := e.take(d.ChildThread)
		equal(e, "first", child.DelegatorCall, calls[0].ID)
		equal(e, "needs start", e.takeResult(calls[1]).NeedsStart, false)
		closed := e.answer(child, 1, "one")
		equal(e, "starts the next run", closed.Waiting, t.ThreadID)
		equal(e, "claimed", closed.Next, "")
		equal(e, "done", e.takeResult(calls[0]).Done, true)
		equal(e, "needs start", e.takeResult(calls[1]).NeedsStart, true)
		second := e.take(d.ChildThread)
		equal(e, "second", second.DelegatorCall, calls[1].ID)
		e.answer(second, 1, "two")
		equal(e, "done", e.takeResult(calls[1]).Done, true)
		contains(e, "result", e.call(calls[0].ID).Result, "one")
		contains(e, "result", e.call(calls[1].ID).Result, "two")
		e.saveRound(t, 2)
		e.sound(t.ThreadID)
	}},
	{"an unknown sub-agent is refused", func(e *env) {
		t := e.started("s1")
		calls := e.assigns(t, 1, 2)
		e.refused(resume(calls[0], "agent:researcher:none"))
		e.refused(resume(calls[1], "researcher-1-000000000000"))
	}},
	{"a sub-agent of another parent, user or type is refused", func(e *env) {
		t := e.started("s1")
		d := e.childDone(t, 1)
		other := e.started("s2")
		e.refused(resume(e.assigns(other, 1, 1)[0], d.ChildThread))
		r := message("s3", "m1", "hi")
		r.UserID = otherUser
		foreign := e.take(must[memory.SendResult](e)(e.s.Send(e.ctx, r)).ThreadID)
		c := e.assigns(foreign, 1, 1)[0]
		equal(e, "refused", e.open(resume(c, d.ChildThread)).Refused, true)
		rt := resume(e.assigns(t, 2, 1)[0], d.ChildThread)
		rt.Config.Name = "general"
		e.refused(rt)
		equal(e, "its turns", len(must[[]memory.Turn](e)(e.s.TurnsOf(e.ctx, d.ChildThread))), 1)
	}},
}

package memorytest

import (
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// gated stores a step whose calls have the gates, and returns its calls.
func (e *env) gated(t memory.Turn, step int, gates ...agent.Gate) []agent.ToolCall {
	e.Helper()
	var calls []agent.Call
	for i := range gates {
		calls = append(calls, lookup(i))
	}
	r := record(t, step, e.begin(t, step), "", calls...)
	r.Gates = gates
	return must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, r)).Calls
}

func (e *env) ask(t memory.Turn, step int) memory.Approval {
	e.Helper()
	return must[memory.Approval](e)(e.s.OpenApproval(e.ctx, round(t, step)))
}

func decision(target, verdict string) memory.Decision {
	return memory.Decision{UserID: user, By: "alice", Target: target, Verdict: verdict}
}

func (e *env) decide(d memory.Decision) memory.DecideResult {
	e.Helper()
	return must[memory.DecideResult](e)(e.s.Decide(e.ctx, d))
}

func ids(calls []agent.ToolCall) []string {
	var out []string
	for _, c := range calls {
		out = append(out, c.ID)
	}
	return out
}

func (e *env) approvals(f memory.ApprovalFilter) []memory.Approval {
	e.Helper()
	return must[[]memory.Approval](e)(e.s.Approvals(e.ctx, f))
}

var approvalRules = []rule{
	{"nobody is asked about a call that is refused beforehand: it ends with the reply", func(e *env) {
		t := e.started("s1")
		r := record(t, 1, e.begin(t, 1), "", lookup(0), lookup(1))
		r.Gates = []agent.Gate{agent.GateAsk, agent.GateAsk}
		r.Refusals = []agent.ToolResult{agent.ToolFailed(agent.ErrPermissionDenied, "a private address")}
		calls := must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, r)).Calls
		equal(e, "ends", [3]any{calls[0].Status, calls[0].ErrorReason, calls[0].Result}, [3]any{agent.CallFailed, agent.ErrPermissionDenied, "a private address"})
		equal(e, "asks", ids(e.ask(t, 1).ToolCalls), []string{calls[1].ID})
		e.decide(decision(calls[1].ID, memory.Deny))
		saved := must[memory.RoundSaved](e)(e.s.SaveToolRound(e.ctx, round(t, 1)))
		equal(e, "results", [2]int{saved.Results, saved.Denied}, [2]int{2, 1})
	}},
	{"one approval asks about all gated calls of a step, and only about those", func(e *env) {
		t := e.started("s1")
		calls := e.gated(t, 1, agent.GateAsk, agent.GateAuto, agent.GateAsk)
		a := e.ask(t, 1)
		equal(e, "calls", ids(a.ToolCalls), []string{calls[0].ID, calls[2].ID})
		equal(e, "place", [4]any{a.ThreadID, a.RootThread, a.TurnID, a.Step}, [4]any{t.ThreadID, t.ThreadID, t.ID, 1})
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadWaitingForApproval)
		equal(e, "asked", e.call(calls[0].ID).Status, agent.CallAwaitingApproval)
		equal(e, "not asked", e.call(calls[1].ID).Status, agent.CallPending)
		ev := e.eventsOf(t.ThreadID, agent.EventApprovalRequired)
		equal(e, "events", len(ev), 1)
		equal(e, "event", ev[0]["approvalId"], any(a.ID))
		equal(e, "waiting", must[memory.StepState](e)(e.s.StepState(e.ctx, round(t, 1))).Waiting, true)
		equal(e, "open", len(e.approvals(memory.ApprovalFilter{UserID: user, OpenOnly: true})), 1)
		e.sound(t.ThreadID)
	}},
	{"asking again changes nothing and returns the same approval", func(e *env) {
		t := e.started("s1")
		e.gated(t, 1, agent.GateAsk)
		a := e.ask(t, 1)
		e.unchanged(t.ThreadID, func() { equal(e, "approval", e.ask(t, 1).ID, a.ID) })
		e.decide(decision(a.ID, memory.Approve))
		e.unchanged(t.ThreadID, func() { equal(e, "approval", e.ask(t, 1).ID, a.ID) })
	}},
	{"a call that waits for a person does not run", func(e *env) {
		t := e.started("s1")
		c := e.gated(t, 1, agent.GateAsk)[0]
		e.ask(t, 1)
		e.unchanged(t.ThreadID, func() {
			if _, err := e.s.BeginTool(e.ctx, e.toolBegin(c, true)); err == nil {
				e.Fatalf("a call that awaits approval was begun")
			}
			_, err := e.s.SaveToolRound(e.ctx, round(t, 1))
			e.code(err, agent.CodeConflict)
		})
	}},
	{"calls that need nobody run before the question and keep their results", func(e *env) {
		t := e.started("s1")
		calls := e.gated(t, 1, agent.GateAuto, agent.GateAsk)
		e.runTool(calls[0], "ran")
		a := e.ask(t, 1)
		e.decide(decision(a.ID, memory.Deny))
		e.saveRound(t, 1)
		equal(e, "ran", e.call(calls[0].ID).Result, "ran")
		e.sound(t.ThreadID)
	}},
	{"time spent waiting for a person is recorded", func(e *env) {
		t := e.started("s1")
		e.gated(t, 1, agent.GateAsk)
		a := e.ask(t, 1)
		e.h.Clock.Advance(time.Hour)
		e.decide(decision(a.ID, memory.Approve))
		equal(e, "waited", e.turn(t.ID).WaitedMs, time.Hour.Milliseconds())
	}},
	{"the first of many different decisions at once wins", func(e *env) {
		t := e.started("s1")
		e.gated(t, 1, agent.GateAsk)
		a := e.ask(t, 1)
		verdicts := []string{memory.Approve, memory.Deny, memory.Approve, memory.Deny}
		errs := make([]error, len(verdicts))
		var wg sync.WaitGroup
		for i, v := range verdicts {
			wg.Go(func() { _, errs[i] = e.s.Decide(e.ctx, decision(a.ID, v)) })
		}
		wg.Wait()
		won := e.approvals(memory.ApprovalFilter{ThreadID: t.ThreadID})[0].Decision
		for i, v := range verdicts {
			if v == won {
				e.ok(errs[i])
			} else {
				e.code(errs[i], agent.CodeConflict)
			}
		}
		equal(e, "responses", len(e.eventsOf(t.ThreadID, agent.EventApprovalResponse)), 1)
		e.sound(t.ThreadID)
	}},
	{"approvals of descendants are listed under their root", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		e.gated(child, 1, agent.GateAsk)
		a := e.ask(child, 1)
		equal(e, "agent", a.Agent, "researcher")
		list := e.approvals(memory.ApprovalFilter{UserID: user, RootThread: t.ThreadID, OpenOnly: true})
		equal(e, "listed", len(list), 1)
		equal(e, "thread", [2]string{list[0].ThreadID, list[0].RootThread}, [2]string{child.ThreadID, t.ThreadID})
		equal(e, "task", e.task(t.ThreadID, child.TaskID).Status, agent.TaskWaiting)
		e.decide(decision(a.ID, memory.Approve))
		equal(e, "task", e.task(t.ThreadID, child.TaskID).Status, agent.TaskRunning)
		e.sound(t.ThreadID)
	}},
	{"approvals of others are neither listed nor decided", func(e *env) {
		t := e.started("s1")
		e.gated(t, 1, agent.GateAsk)
		a := e.ask(t, 1)
		equal(e, "listed", len(e.approvals(memory.ApprovalFilter{UserID: otherUser})), 0)
		e.unchanged(t.ThreadID, func() {
			d := decision(a.ID, memory.Approve)
			d.UserID = otherUser
			_, err := e.s.Decide(e.ctx, d)
			e.code(err, agent.CodeNotFound)
			_, err = e.s.Decide(e.ctx, decision("none", memory.Approve))
			e.code(err, agent.CodeNotFound)
			_, err = e.s.Decide(e.ctx, decision(a.ID, "maybe"))
			e.code(err, agent.CodeInvalid)
		})
	}},
	{"closing a turn settles its approval as aborted, and a decision comes too late", func(e *env) {
		t := e.started("s1")
		c := e.gated(t, 1, agent.GateAsk)[0]
		a := e.ask(t, 1)
		e.close(cancelled(t, 1))
		equal(e, "open", len(e.approvals(memory.ApprovalFilter{ThreadID: t.ThreadID, OpenOnly: true})), 0)
		equal(e, "decision", e.approvals(memory.ApprovalFilter{ThreadID: t.ThreadID})[0].Decision, "aborted")
		equal(e, "call", e.call(c.ID).Status, agent.CallAborted)
		e.unchanged(t.ThreadID, func() {
			_, err := e.s.Decide(e.ctx, decision(a.ID, memory.Approve))
			e.code(err, agent.CodeConflict)
		})
		e.sound(t.ThreadID)
	}},
}

var verdictRules = []rule{
	{"approve lets the calls run", func(e *env) {
		t := e.started("s1")
		c := e.gated(t, 1, agent.GateAsk)[0]
		a := e.ask(t, 1)
		r := e.decide(decision(a.ID, memory.Approve))
		equal(e, "repeated", r.Repeated, false)
		equal(e, "decision", [2]string{r.Approval.Decision, r.Approval.DecidedBy}, [2]string{memory.Approve, "alice"})
		equal(e, "call", e.call(c.ID).Status, agent.CallPending)
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadRunning)
		ev := e.eventsOf(t.ThreadID, agent.EventApprovalResponse)
		equal(e, "event", [2]any{ev[0]["approvalId"], ev[0]["decision"]}, [2]any{a.ID, memory.Approve})
		equal(e, "waiting", must[memory.StepState](e)(e.s.StepState(e.ctx, round(t, 1))).Waiting, false)
		e.runTool(c, "ran")
		equal(e, "saved", e.saveRound(t, 1).EndTurn, false)
		e.sound(t.ThreadID)
	}},
	{"a decision may name a call instead of its approval", func(e *env) {
		t := e.started("s1")
		c := e.gated(t, 1, agent.GateAsk)[0]
		a := e.ask(t, 1)
		equal(e, "approval", e.decide(decision(c.ID, memory.Approve)).Approval.ID, a.ID)
	}},
	{"a repeated equal decision returns the first outcome, another is a conflict that says who decided", func(e *env) {
		t := e.started("s1")
		e.gated(t, 1, agent.GateAsk)
		a := e.ask(t, 1)
		first := e.decide(decision(a.ID, memory.Approve))
		e.unchanged(t.ThreadID, func() {
			again := e.decide(decision(a.ID, memory.Approve))
			equal(e, "repeated", again.Repeated, true)
			equal(e, "decision", again.Approval.Decision, first.Approval.Decision)
			d := decision(a.ID, memory.Deny)
			d.By = "bob"
			_, err := e.s.Decide(e.ctx, d)
			e.code(err, agent.CodeConflict)
			if !strings.Contains(err.Error(), "alice") {
				e.Errorf("%q does not say who decided", err)
			}
		})
	}},
	{"deny gives denied results and ends the turn with the round", func(e *env) {
		t := e.started("s1")
		calls := e.gated(t, 1, agent.GateAsk, agent.GateAsk)
		e.decide(decision(e.ask(t, 1).ID, memory.Deny))
		for _, c := range calls {
			got := e.call(c.ID)
			equal(e, "call", [3]string{string(got.Status), got.Result, string(got.ErrorReason)}, [3]string{"denied", agent.TextDenied, "denied"})
		}
		saved := e.saveRound(t, 1)
		equal(e, "saved", [3]any{saved.Results, saved.Denied, saved.EndTurn}, [3]any{2, 2, true})
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), 4)
		equal(e, "text", ms[3].Content.String(), agent.TextDenied)
		equal(e, "responses", len(e.eventsOf(t.ThreadID, agent.EventToolResponse)), 2)
		r := completed(t, 2)
		r.Answer = "You denied lookup, so I stopped."
		e.close(r)
		ms = e.messages(t.ThreadID)
		equal(e, "answer", ms[len(ms)-1].Content.String(), r.Answer)
		equal(e, "answer of the turn", e.turn(t.ID).Answer, r.Answer)
		e.sound(t.ThreadID)
	}},
	{"deny does not end the turn of an agent that is to go on", func(e *env) {
		c := mainConfig()
		c.OnDeny = agent.OnDenyContinue
		claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: e.send("s1", "m1").ThreadID, Config: c}))
		t := *claim.Turn
		e.gated(t, 1, agent.GateAsk)
		e.decide(decision(e.ask(t, 1).ID, memory.Deny))
		saved := e.saveRound(t, 1)
		equal(e, "saved", [2]any{saved.Denied, saved.EndTurn}, [2]any{1, false})
		e.answer(t, 2, "then not")
		e.sound(t.ThreadID)
	}},
	{"edit makes the instruction the result and the turn goes on", func(e *env) {
		t := e.started("s1")
		c := e.gated(t, 1, agent.GateAsk)[0]
		d := decision(e.ask(t, 1).ID, memory.Edit)
		d.Instruction = "look up something nicer"
		e.decide(d)
		got := e.call(c.ID)
		equal(e, "call", [3]string{string(got.Status), got.Result, string(got.ErrorReason)}, [3]string{"denied", d.Instruction, "edited"})
		equal(e, "ends", e.saveRound(t, 1).EndTurn, false)
		equal(e, "message", e.messages(t.ThreadID)[2].Content.String(), d.Instruction)
		equal(e, "event", e.eventsOf(t.ThreadID, agent.EventApprovalResponse)[0]["editInstruction"], any(d.Instruction))
		e.answer(t, 2, "as you wish")
		e.sound(t.ThreadID)
	}},
	{"a partial approval denies the rest explicitly", func(e *env) {
		t := e.started("s1")
		calls := e.gated(t, 1, agent.GateAsk, agent.GateAsk, agent.GateAsk)
		d := decision(e.ask(t, 1).ID, memory.Approve)
		d.Calls = []string{calls[1].ID}
		r := e.decide(d)
		equal(e, "approved", r.Approval.Approved, d.Calls)
		equal(e, "first", e.call(calls[0].ID).Status, agent.CallDenied)
		equal(e, "second", e.call(calls[1].ID).Status, agent.CallPending)
		equal(e, "third", e.call(calls[2].ID).Status, agent.CallDenied)
		equal(e, "equal decision", e.decide(d).Repeated, true)
		_, err := e.s.Decide(e.ctx, decision(calls[0].ID, memory.Approve))
		e.code(err, agent.CodeConflict)
		e.runTool(calls[1], "ran")
		equal(e, "denied", e.saveRound(t, 1).Denied, 2)
		e.sound(t.ThreadID)
	}},
	{"approve_all lets the same tool pass for the rest of the session, not in another", func(e *env) {
		t := e.started("s1")
		e.runTool(e.approveAll(t), "ran")
		e.saveRound(t, 1)
		equal(e, "same thread", e.asks(t, 2), false)
		r := message("s1", "m1", "hi")
		r.ConversationID = "second"
		same := e.take(must[memory.SendResult](e)(e.s.Send(e.ctx, r)).ThreadID)
		equal(e, "same session", e.asks(same, 1), false)
		equal(e, "another session", e.asks(e.started("s2"), 1), true)
	}},
}

// approveAll opens a step with a gated call and approves its tool for the session.
func (e *env) approveAll(t memory.Turn) agent.ToolCall {
	e.Helper()
	c := e.gated(t, 1, agent.GateAsk)[0]
	e.decide(decision(e.ask(t, 1).ID, memory.ApproveAll))
	return c
}

// asks reports whether a gated call of lookup waits for a person.
func (e *env) asks(t memory.Turn, step int) bool {
	e.Helper()
	c := e.gated(t, step, agent.GateAsk)[0]
	if e.call(c.ID).Gate != agent.GateAsk {
		return false
	}
	if _, err := e.s.OpenApproval(e.ctx, round(t, step)); err != nil {
		e.code(err, agent.CodeConflict, agent.CodeInvalid, agent.CodeNotFound) // nothing to ask
	}
	return must[memory.StepState](e)(e.s.StepState(e.ctx, round(t, step))).Waiting
}

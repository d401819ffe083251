package memorytest

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// edgeRules are the corners of several operations.
var edgeRules = []rule{
	{"a conversation without a name is the default one", func(e *env) {
		r := message("s1", "m1", "hi")
		r.ConversationID = ""
		equal(e, "thread", must[memory.SendResult](e)(e.s.Send(e.ctx, r)).ThreadID, "s1/default")
	}},
	{"a message without an id, or with a choice that does not exist, is refused", func(e *env) {
		for _, change := range []func(*memory.SendRequest){
			func(r *memory.SendRequest) { r.MessageID = "" },
			func(r *memory.SendRequest) { r.MessageID = "a\x00b" },
			func(r *memory.SendRequest) { r.WhenBusy = "later" },
		} {
			r := message("s1", "m1", "hi")
			change(&r)
			_, err := e.s.Send(e.ctx, r)
			e.code(err, agent.CodeInvalid)
		}
		equal(e, "threads", len(e.threads(memory.ThreadFilter{All: true})), 0)
	}},
	{"a message that makes no choice is refused while an approval is open, a queued one is taken", func(e *env) {
		t := e.started("s1")
		e.gated(t, 1, agent.GateAsk)
		e.ask(t, 1)
		r := message("s1", "m2", "hi")
		r.WhenBusy = ""
		e.unchanged(t.ThreadID, func() {
			_, err := e.s.Send(e.ctx, r)
			e.code(err, agent.CodeConflict)
		})
		equal(e, "state", e.send("s1", "m3").State, memory.EntryWaiting)
	}},
	{"a sub-agent takes neither messages nor retries from people", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		e.answer(child, 1, "the finding")
		e.unchanged(t.ThreadID, func() {
			_, err := e.s.Send(e.ctx, memory.SendRequest{UserID: user, ThreadID: child.ThreadID, MessageID: "m1", Content: agent.Text("hi"), WhenBusy: memory.Queue})
			e.code(err, agent.CodeInvalid, agent.CodeConflict, agent.CodeNotFound)
			_, err = e.s.Retry(e.ctx, memory.RetryRequest{UserID: user, ThreadID: child.ThreadID, RequestID: "r1"})
			e.code(err, agent.CodeInvalid, agent.CodeConflict, agent.CodeNotFound)
		})
	}},
	{"the model that a sender chose stays until another is chosen", func(e *env) {
		r := message("s1", "m1", "hi")
		r.Model = "big"
		t := e.take(must[memory.SendResult](e)(e.s.Send(e.ctx, r)).ThreadID)
		equal(e, "model", e.thread(t.ThreadID).Config.Model, "big")
		e.answer(t, 1, "done")
		e.send("s1", "m2")
		t = e.take(t.ThreadID)
		equal(e, "kept", e.thread(t.ThreadID).Config.Model, "big")
		e.answer(t, 1, "done")
		r.MessageID, r.Model = "m3", "small"
		must[memory.SendResult](e)(e.s.Send(e.ctx, r))
		e.take(t.ThreadID)
		equal(e, "changed", e.thread(t.ThreadID).Config.Model, "small")
	}},
	{"the working directory of a claim replaces the main thread's, but not in the middle of a turn", func(e *env) {
		thread := e.send("s1", "m1").ThreadID
		take := func(workdir string) memory.Turn {
			claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: thread, RunID: "run", Workdir: workdir}))
			if claim.Turn == nil {
				return memory.Turn{}
			}
			return *claim.Turn
		}
		t := take("/allowed")
		equal(e, "workdir", e.thread(thread).Workdir, "/allowed")
		e.calls(t, 1, 1)
		take("/elsewhere")
		equal(e, "in the middle", e.thread(thread).Workdir, "/allowed")
		e.close(cancelled(t, 1))
		take("/elsewhere")
		equal(e, "without a turn", e.thread(thread).Workdir, "/allowed")
		e.send("s1", "m2")
		take("/elsewhere")
		equal(e, "the next turn", e.thread(thread).Workdir, "/elsewhere")
	}},
	{"a turn completes only with a stored reply, and ends in a final state only", func(e *env) {
		t := e.started("s1")
		e.unchanged(t.ThreadID, func() {
			if _, err := e.s.CloseTurn(e.ctx, completed(t, 1)); err == nil {
				e.Fatalf("a turn completed without an answer")
			}
			r := completed(t, 1)
			r.Outcome = agent.ThreadRunning
			_, err := e.s.CloseTurn(e.ctx, r)
			e.code(err, agent.CodeInvalid)
			r = failed(t, 1, agent.ReasonError)
			r.TurnID = agent.TurnID(t.ThreadID, "other", 0)
			_, err = e.s.CloseTurn(e.ctx, r)
			e.code(err, agent.CodeNotFound, agent.CodeStale)
		})
		other := e.started("s2")
		e.unchanged(t.ThreadID, func() {
			r := failed(t, 1, agent.ReasonError)
			r.ThreadID = other.ThreadID
			_, err := e.s.CloseTurn(e.ctx, r)
			e.code(err, agent.CodeNotFound, agent.CodeStale, agent.CodeInvalid)
		})
	}},
	{"a decision names calls of its approval only", func(e *env) {
		t := e.started("s1")
		calls := e.gated(t, 1, agent.GateAsk, agent.GateAuto)
		a := e.ask(t, 1)
		e.unchanged(t.ThreadID, func() {
			for _, id := range []string{"call_other", calls[1].ID} {
				d := decision(a.ID, memory.Approve)
				d.Calls = []string{id}
				_, err := e.s.Decide(e.ctx, d)
				e.code(err, agent.CodeInvalid, agent.CodeNotFound, agent.CodeConflict)
			}
		})
	}},
	{"a background end that a sub-agent did not read before its turn closed is not lost", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.background(child, 1, "general")
		e.saveRound(child, 1)
		e.reply(child, 2, "I have a helper")
		g := e.take(grand.ChildThread)
		e.answer(g, 1, "deep finding")
		e.close(completed(child, 2))
		e.takeResult(e.firstCall(t, 1))
		e.saveRound(t, 1)
		e.sound(t.ThreadID)
		// It waits where somebody takes it: above, or as the sub-agent's next turn.
		steered := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 2))).Steered
		claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: child.ThreadID}))
		if (steered == 1) == (claim.Turn != nil) {
			e.Errorf("steered above: %d, taken by the sub-agent: %v", steered, claim.Turn != nil)
		}
		e.sound(t.ThreadID)
	}},
	{"work in the background that did not begin ends with a cancel of all, and its delegator is told", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		e.answer(t, 2, "it is on its way")
		e.requestCancel(memory.CancelRequest{UserID: user, ThreadID: t.ThreadID, By: "alice", All: true})
		claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: d.ChildThread}))
		equal(e, "nothing to take", claim.Turn == nil, true)
		equal(e, "task", e.task(t.ThreadID, d.TaskID).Status, agent.TaskCancelled)
		e.sound(t.ThreadID)
	}},
	{"a delegation is opened, not run, and no other call is opened", func(e *env) {
		t := e.started("s1")
		calls := e.reply(t, 1, "", assign(0), lookup(1)).Calls
		e.unchanged(t.ThreadID, func() {
			_, err := e.s.OpenDelegation(e.ctx, delegation(calls[1], "researcher"))
			e.code(err, agent.CodeConflict, agent.CodeInvalid)
			_, err = e.s.TakeChildResult(e.ctx, childResult(calls[0]))
			e.code(err, agent.CodeConflict, agent.CodeInvalid, agent.CodeNotFound)
		})
	}},
	{"a call with a cancelled context happens as a whole or not at all", func(e *env) {
		t := e.started("s1")
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		before := e.state(t.ThreadID)
		if _, err := e.s.Send(ctx, message("s1", "m2", "hi")); err != nil {
			equal(e, "state", e.state(t.ThreadID), before)
		} else {
			equal(e, "entry", e.entry(t.ThreadID, memory.EntryMessage, "m2").State, memory.EntryWaiting)
		}
		e.sound(t.ThreadID)
	}},
}

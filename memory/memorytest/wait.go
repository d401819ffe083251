package memorytest

import (
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func (e *env) waits(f memory.WaitFilter) []agent.ModelWait {
	e.Helper()
	return must[[]agent.ModelWait](e)(e.s.ModelWaits(e.ctx, f))
}

// toldWaits are the waits in a thread's log.
func (e *env) toldWaits(threadID string) (told []agent.ModelWait) {
	e.Helper()
	for _, ev := range e.events(threadID) {
		var w agent.Warning
		if ev.Type == agent.EventWarning && json.Unmarshal(ev.Data, &w) == nil && w.Wait != nil {
			equal(e, "code", w.Code, agent.WarnModelWait)
			told = append(told, *w.Wait)
		}
	}
	return told
}

// held fails the current attempt of a step, whose call is to be made again.
func (e *env) held(t memory.Turn, attempt int, after time.Duration, notCalled bool) agent.ModelWait {
	e.Helper()
	f := failure(t, 1, attempt)
	f.NotCalled = notCalled
	f.Wait = agent.NewModelWait(&agent.ModelError{Code: agent.ModelOverloaded, Message: "busy", NotCalled: notCalled}, attempt+1, e.h.Clock.Now().Add(after))
	e.ok(e.s.FailModel(e.ctx, f))
	e.unchanged(t.ThreadID, func() { e.ok(e.s.FailModel(e.ctx, f)) })
	return *f.Wait
}

var waitRules = []rule{
	{"what a failed attempt's call waits for is told once, and listed until the next attempt begins", func(e *env) {
		t := e.started("s1")
		w := e.held(t, e.begin(t, 1), time.Hour, false)
		w.ThreadID, w.RootThread, w.TurnID, w.Agent = t.ThreadID, t.ThreadID, t.ID, "orchestrator"
		of := memory.WaitFilter{ThreadID: t.ThreadID}
		equal(e, "waits", e.waits(of), []agent.ModelWait{w})
		equal(e, "told", e.toldWaits(t.ThreadID), []agent.ModelWait{w})
		equal(e, "of another user", len(e.waits(memory.WaitFilter{UserID: "nobody"})), 0)
		a := e.begin(t, 1)
		equal(e, "under way", len(e.waits(of)), 0)
		e.ok(e.s.FailModel(e.ctx, failure(t, 1, a)))
		equal(e, "failed for good", len(e.waits(of)), 0)
		equal(e, "told", len(e.toldWaits(t.ThreadID)), 1)
		e.answer(t, 1, "at last")
		e.sound(t.ThreadID)
	}},
	{"a call that was held back for a moment is listed, but not told", func(e *env) {
		t := e.started("s1")
		e.held(t, e.begin(t, 1), time.Second, true)
		equal(e, "waits", len(e.waits(memory.WaitFilter{ThreadID: t.ThreadID})), 1)
		equal(e, "told", len(e.toldWaits(t.ThreadID)), 0)
		e.held(t, e.begin(t, 1), time.Minute, true)
		equal(e, "told", len(e.toldWaits(t.ThreadID)), 1)
	}},
	{"a call that was held back did not fail", func(e *env) {
		t := e.started("s1")
		f := failure(t, 1, e.begin(t, 1))
		f.Code, f.Class = agent.ModelAnswerInvalid, agent.ClassEmpty
		f.Wait = agent.NewModelWait(&agent.ModelError{Code: f.Code}, 2, e.h.Clock.Now().Add(time.Second))
		e.ok(e.s.FailModel(e.ctx, f))
		e.h.Clock.Advance(10 * time.Second)
		began := func(failures int, failing time.Duration) int {
			start := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 1)))
			equal(e, "start", []any{start.Failures, start.Failing, start.LastCode, start.LastErr, start.LastClass, start.InARow},
				[]any{failures, failing, f.Code, f.Message, f.Class, failures})
			return start.Attempt
		}
		h := failureAs(f, began(1, 10*time.Second))
		h.Code, h.Message, h.Class, h.NotCalled = agent.ModelRateLimited, "slow down", "", true
		h.Wait = agent.NewModelWait(&agent.ModelError{Code: h.Code, NotCalled: true}, 2, e.h.Clock.Now().Add(time.Minute))
		e.ok(e.s.FailModel(e.ctx, h))
		step := must[[]memory.Step](e)(e.s.Steps(e.ctx, t.ID))[0]
		equal(e, "step", []any{step.Attempt, step.Failed, step.LastCode}, []any{2, 1, f.Code})
		equal(e, "waits", len(e.waits(memory.WaitFilter{ThreadID: t.ThreadID})), 1)
		e.h.Clock.Advance(time.Minute + 5*time.Second)
		e.ok(e.s.FailModel(e.ctx, failureAs(f, began(1, 75*time.Second))))
		e.h.Clock.Advance(time.Second)
		f = failureAs(f, began(2, 76*time.Second))
		f.Wait, f.Fallback = nil, "other"
		e.ok(e.s.FailModel(e.ctx, f))
		start := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 1)))
		equal(e, "another model", []any{start.Failures, start.Failing}, []any{0, time.Duration(0)})
	}},
	{"a summary that is tried again has its step wait", func(e *env) {
		t := e.started("s1")
		full := failure(t, 1, e.begin(t, 1))
		full.NotCalled = true
		e.ok(e.s.FailModel(e.ctx, full))
		start := must[memory.SummaryStart](e)(e.s.BeginSummary(e.ctx, e.summaryBegin(t, 1, 1)))
		w := agent.NewModelWait(&agent.ModelError{Code: agent.ModelOverloaded, Message: "busy"}, 2, e.h.Clock.Now().Add(time.Minute))
		e.ok(e.s.FailSummary(e.ctx, memory.SummaryFailure{ThreadID: t.ThreadID, TurnID: t.ID, Step: 1, Cause: memory.CauseFull, Attempt: start.Attempt, NotCalled: true, Wait: w}))
		waits := e.waits(memory.WaitFilter{ThreadID: t.ThreadID})
		equal(e, "waits", len(waits), 1)
		equal(e, "until", waits[0].Until, w.Until)
		equal(e, "told", e.toldWaits(t.ThreadID), waits)
		equal(e, "requests", e.thread(t.ThreadID).RequestCount, int64(0))
		e.begin(t, 1)
		equal(e, "under way", len(e.waits(memory.WaitFilter{ThreadID: t.ThreadID})), 0)
	}},
	{"a sub-agent's wait is told on the root too, and the end of a turn ends it", func(e *env) {
		t := e.started("s1")
		d := e.delegate(t, 1, "researcher")
		child := e.take(d.ChildThread)
		e.held(child, e.begin(child, 1), time.Hour, false)
		w := e.waits(memory.WaitFilter{RootThread: t.ThreadID})
		equal(e, "waits", len(w), 1)
		equal(e, "who", [3]string{w[0].ThreadID, w[0].RootThread, w[0].Agent}, [3]string{child.ThreadID, t.ThreadID, "researcher"})
		equal(e, "told", e.toldWaits(child.ThreadID), w)
		equal(e, "told on the root", e.toldWaits(t.ThreadID), w)
		equal(e, "of the root alone", len(e.waits(memory.WaitFilter{ThreadID: t.ThreadID})), 0)
		e.close(memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCancelled, Step: 1, Reason: agent.ReasonCancelled, Code: "cancelled"})
		equal(e, "after the end", len(e.waits(memory.WaitFilter{})), 0)
		e.sound(t.ThreadID)
	}},
}

package turncases

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var waitRules = []suite.Rule{
	{Name: "what a failed attempt's call waits for is told once, and listed until the next attempt begins", Run: func(e *suite.Env) {
		t := e.Started("s1")
		w := e.Held(t, e.Begin(t, 1), time.Hour, false)
		w.ThreadID, w.RootThread, w.TurnID, w.Agent = t.ThreadID, t.ThreadID, t.ID, "orchestrator"
		of := memory.WaitFilter{ThreadID: t.ThreadID}
		suite.Equal(e, "waits", e.Waits(of), []agent.ModelWait{w})
		suite.Equal(e, "told", e.ToldWaits(t.ThreadID), []agent.ModelWait{w})
		suite.Equal(e, "of another user", len(e.Waits(memory.WaitFilter{UserID: "nobody"})), 0)
		a := e.Begin(t, 1)
		suite.Equal(e, "under way", len(e.Waits(of)), 0)
		e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, a)))
		suite.Equal(e, "failed for good", len(e.Waits(of)), 0)
		suite.Equal(e, "told", len(e.ToldWaits(t.ThreadID)), 1)
		e.Answer(t, 1, "at last")
		e.Sound(t.ThreadID)
	}},
	{Name: "a call that was held back for a moment is listed, but not told", Run: func(e *suite.Env) {
		t := e.Started("s1")
		e.Held(t, e.Begin(t, 1), time.Second, true)
		suite.Equal(e, "waits", len(e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})), 1)
		suite.Equal(e, "told", len(e.ToldWaits(t.ThreadID)), 0)
		e.Held(t, e.Begin(t, 1), time.Minute, true)
		suite.Equal(e, "told", len(e.ToldWaits(t.ThreadID)), 1)
	}},
	{Name: "a call that was held back did not fail", Run: func(e *suite.Env) {
		t := e.Started("s1")
		f := suite.Failure(t, 1, e.Begin(t, 1))
		f.Code, f.Class = agent.ModelAnswerInvalid, agent.ClassEmpty
		f.Wait = agent.NewModelWait(&agent.ModelError{Code: f.Code}, 2, e.H.Clock.Now().Add(time.Second))
		e.Ok(e.S.FailModel(e.Ctx, f))
		e.H.Clock.Advance(10 * time.Second)
		began := func(failures int, failing time.Duration) int {
			start := suite.Must[memory.ModelStart](e)(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))
			suite.Equal(e, "start", []any{start.Failures, start.Failing, start.LastCode, start.LastErr, start.LastClass, start.InARow},
				[]any{failures, failing, f.Code, f.Message, f.Class, failures})
			return start.Attempt
		}
		h := failureAs(f, began(1, 10*time.Second))
		h.Code, h.Message, h.Class, h.NotCalled = agent.ModelRateLimited, "slow down", "", true
		h.Wait = agent.NewModelWait(&agent.ModelError{Code: h.Code, NotCalled: true}, 2, e.H.Clock.Now().Add(time.Minute))
		e.Ok(e.S.FailModel(e.Ctx, h))
		step := suite.Must[[]memory.Step](e)(e.S.Steps(e.Ctx, t.ID))[0]
		suite.Equal(e, "step", []any{step.Attempt, step.Failed, step.LastCode}, []any{2, 1, f.Code})
		suite.Equal(e, "waits", len(e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})), 1)
		e.H.Clock.Advance(time.Minute + 5*time.Second)
		e.Ok(e.S.FailModel(e.Ctx, failureAs(f, began(1, 75*time.Second))))
		e.H.Clock.Advance(time.Second)
		f = failureAs(f, began(2, 76*time.Second))
		f.Wait, f.Fallback = nil, "other"
		e.Ok(e.S.FailModel(e.Ctx, f))
		start := suite.Must[memory.ModelStart](e)(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))
		suite.Equal(e, "another model", []any{start.Failures, start.Failing}, []any{0, time.Duration(0)})
	}},
	{Name: "a summary that is tried again has its step wait", Run: func(e *suite.Env) {
		t := e.Started("s1")
		full := suite.Failure(t, 1, e.Begin(t, 1))
		full.NotCalled = true
		e.Ok(e.S.FailModel(e.Ctx, full))
		start := suite.Must[memory.SummaryStart](e)(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 1, 1)))
		w := agent.NewModelWait(&agent.ModelError{Code: agent.ModelOverloaded, Message: "busy"}, 2, e.H.Clock.Now().Add(time.Minute))
		e.Ok(e.S.FailSummary(e.Ctx, memory.SummaryFailure{ThreadID: t.ThreadID, TurnID: t.ID, Step: 1, Cause: memory.CauseFull, Attempt: start.Attempt, NotCalled: true, Wait: w}))
		waits := e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})
		suite.Equal(e, "waits", len(waits), 1)
		suite.Equal(e, "until", waits[0].Until, w.Until)
		suite.Equal(e, "told", e.ToldWaits(t.ThreadID), waits)
		suite.Equal(e, "requests", e.Thread(t.ThreadID).RequestCount, int64(0))
		e.Begin(t, 1)
		suite.Equal(e, "under way", len(e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})), 0)
	}},
	{Name: "a sub-agent's wait is told on the root too, and the end of a turn ends it", Run: func(e *suite.Env) {
		t := e.Started("s1")
		d := e.Delegate(t, 1, "researcher")
		child := e.Take(d.ChildThread)
		e.Held(child, e.Begin(child, 1), time.Hour, false)
		w := e.Waits(memory.WaitFilter{RootThread: t.ThreadID})
		suite.Equal(e, "waits", len(w), 1)
		suite.Equal(e, "who", [3]string{w[0].ThreadID, w[0].RootThread, w[0].Agent}, [3]string{child.ThreadID, t.ThreadID, "researcher"})
		suite.Equal(e, "told", e.ToldWaits(child.ThreadID), w)
		suite.Equal(e, "told on the root", e.ToldWaits(t.ThreadID), w)
		suite.Equal(e, "of the root alone", len(e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})), 0)
		e.Close(memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCancelled, Step: 1, Reason: agent.ReasonCancelled, Code: "cancelled"})
		suite.Equal(e, "after the end", len(e.Waits(memory.WaitFilter{})), 0)
		e.Sound(t.ThreadID)
	}},
}

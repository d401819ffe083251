package turncases

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var waitRules = []suite.Rule{
	{Name: "what a failed attempt's call waits for is told once, and listed until the next attempt begins", Turn: func(e *suite.Env, t memory.Turn) {
		w := e.Held(t, e.Begin(t, 1), time.Hour, false)
		w.ThreadID, w.RootThread, w.TurnID, w.Agent = t.ThreadID, t.ThreadID, t.ID, "orchestrator"
		of := memory.WaitFilter{ThreadID: t.ThreadID}
		suite.Equals(e, "waits", e.Waits(of), []agent.ModelWait{w}, "told", e.ToldWaits(t.ThreadID), []agent.ModelWait{w})
		suite.Equal(e, "of another user", len(e.Waits(memory.WaitFilter{UserID: "nobody"})), 0)
		a := e.Begin(t, 1)
		suite.Equal(e, "under way", len(e.Waits(of)), 0)
		e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, a)))
		suite.Equals(e, "failed for good", len(e.Waits(of)), 0, "told", len(e.ToldWaits(t.ThreadID)), 1)
		e.Answer(t, 1, "at last")
	}},
	{Name: "a call that was held back for a moment is listed, but not told", Turn: func(e *suite.Env, t memory.Turn) {
		e.Held(t, e.Begin(t, 1), time.Second, true)
		suite.Equals(e, "waits", len(e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})), 1, "told", len(e.ToldWaits(t.ThreadID)), 0)
		e.Held(t, e.Begin(t, 1), time.Minute, true)
		suite.Equal(e, "told", len(e.ToldWaits(t.ThreadID)), 1)
	}},
	{Name: "a call that was held back did not fail", Turn: func(e *suite.Env, t memory.Turn) {
		f := suite.Failure(t, 1, e.Begin(t, 1))
		f.Code, f.Class = agent.ModelAnswerInvalid, agent.ClassEmpty
		f.Wait = agent.NewModelWait(&agent.ModelError{Code: f.Code}, 2, e.H.Clock.Now().Add(time.Second))
		e.Ok(e.S.FailModel(e.Ctx, f))
		e.H.Clock.Advance(10 * time.Second)
		began := func(failures int, failing time.Duration) int {
			start := suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))(e)
			suite.Equal(e, "start", []any{start.Failures, start.Failing, start.LastCode, start.LastErr, start.LastClass, start.InARow},
				[]any{failures, failing, f.Code, f.Message, f.Class, failures})
			return start.Attempt
		}
		h := failureAs(f, began(1, 10*time.Second))
		h.Code, h.Message, h.Class, h.NotCalled = agent.ModelRateLimited, "slow down", "", true
		h.Wait = agent.NewModelWait(&agent.ModelError{Code: h.Code, NotCalled: true}, 2, e.H.Clock.Now().Add(time.Minute))
		e.Ok(e.S.FailModel(e.Ctx, h))
		step := suite.Must(e.S.Steps(e.Ctx, t.ID))(e)[0]
		suite.Equal(e, "step", []any{step.Attempt, step.Failed, step.LastCode}, []any{2, 1, f.Code})
		suite.Equal(e, "waits", len(e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})), 1)
		e.H.Clock.Advance(time.Minute + 5*time.Second)
		e.Ok(e.S.FailModel(e.Ctx, failureAs(f, began(1, 75*time.Second))))
		e.H.Clock.Advance(time.Second)
		f = failureAs(f, began(2, 76*time.Second))
		f.Wait, f.Fallback = nil, "other"
		e.Ok(e.S.FailModel(e.Ctx, f))
		start := suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))(e)
		suite.Equal(e, "another model", []any{start.Failures, start.Failing}, []any{0, time.Duration(0)})
	}},
	{Name: "a summary that is tried again has its step wait", Turn: func(e *suite.Env, t memory.Turn) {
		full := suite.Failure(t, 1, e.Begin(t, 1))
		full.NotCalled = true
		e.Ok(e.S.FailModel(e.Ctx, full))
		start := suite.Must(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 1, 1)))(e)
		w := agent.NewModelWait(&agent.ModelError{Code: agent.ModelOverloaded, Message: "busy"}, 2, e.H.Clock.Now().Add(time.Minute))
		e.Ok(e.S.FailSummary(e.Ctx, memory.SummaryFailure{ThreadID: t.ThreadID, TurnID: t.ID, Step: 1, Cause: memory.CauseFull, Attempt: start.Attempt, NotCalled: true, Wait: w}))
		waits := e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})
		suite.Equals(e, "waits", len(waits), 1, "until", waits[0].Until, w.Until, "told", e.ToldWaits(t.ThreadID), waits)
		suite.Equal(e, "requests", e.Thread(t.ThreadID).RequestCount, int64(0))
		e.Begin(t, 1)
		suite.Equal(e, "under way", len(e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})), 0)
	}},
	{Name: "a sub-agent's wait is told on the root too, and the end of a turn ends it", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		e.Held(child, e.Begin(child, 1), time.Hour, false)
		w := e.Waits(memory.WaitFilter{RootThread: t.ThreadID})
		suite.Equal(e, "waits", len(w), 1)
		suite.Equal(e, "who", [3]string{w[0].ThreadID, w[0].RootThread, w[0].Agent}, [3]string{child.ThreadID, t.ThreadID, "researcher"})
		suite.Equals(e, "told", e.ToldWaits(child.ThreadID), w, "told on the root", e.ToldWaits(t.ThreadID), w)
		suite.Equal(e, "of the root alone", len(e.Waits(memory.WaitFilter{ThreadID: t.ThreadID})), 0)
		e.Close(memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCancelled, Step: 1, Reason: agent.ReasonCancelled, Code: "cancelled"})
		suite.Equal(e, "after the end", len(e.Waits(memory.WaitFilter{})), 0)
	}},
}

var waitedRules = []suite.Rule{
	{Name: "time that a turn, or one below it in the foreground, waits for people is known, counted once", Run: func(e *suite.Env) {
		pass := e.H.Clock.Advance
		t := e.Started("s1")
		calls := e.Assigns(t, 1, 3)
		one := e.Take(e.Open(suite.Delegation(calls[0], "researcher")).ChildThread)
		two := e.Take(e.Open(suite.Delegation(calls[1], "researcher")).ChildThread)
		r := suite.Delegation(calls[2], "researcher")
		r.Background = true
		apart := e.Take(e.Open(r).ChildThread)
		pass(time.Second)
		suite.Equal(e, "nobody waits", e.Waited(t), memory.Waited{})
		e.Gated(apart, 1, agent.GateAsk)
		e.Ask(apart, 1)
		pass(time.Minute)
		suite.Equal(e, "a background child waits by itself", e.Waited(t), memory.Waited{})
		suite.Equal(e, "itself", e.Waited(apart), memory.Waited{Time: time.Minute, Now: true})

		call := e.Gated(one, 1, agent.GateAsk)[0]
		first := e.Ask(one, 1)
		pass(10 * time.Second)
		e.Gated(two, 1, agent.GateAsk)
		second := e.Ask(two, 1)
		pass(10 * time.Second)
		suite.Equal(e, "both wait", e.Waited(t), memory.Waited{Time: 20 * time.Second, Now: true})
		suite.Equal(e, "the second alone", e.Waited(two), memory.Waited{Time: 10 * time.Second, Now: true})
		e.Decide(suite.Decision(first.ID, memory.Approve))
		pass(5 * time.Second)
		e.Decide(suite.Decision(second.ID, memory.Approve))
		pass(time.Hour)
		suite.Equal(e, "answered", e.Waited(t), memory.Waited{Time: 25 * time.Second})
		suite.Equal(e, "the first alone", e.Waited(one), memory.Waited{Time: 20 * time.Second})

		e.RunTool(call, "ran")
		e.SaveRound(one, 1)
		q := e.Questioned(one, 2, "a?")[0]
		pass(time.Minute)
		suite.Equal(e, "a question", e.Waited(t), memory.Waited{Time: 85 * time.Second, Now: true})
		e.AnswerTo(q.ID, "x")
		suite.Equal(e, "answered", e.Waited(one), memory.Waited{Time: 80 * time.Second})
		suite.Fails(e.S.Waited(e.Ctx, "t0000000000000000"))(e, agent.CodeNotFound)
	}},
}

package turncases

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var summaryRules = []suite.Rule{
	{Name: "a summary is stored once, with its event and its cost; messages stay", Run: func(e *suite.Env) {
		t := e.Started("s1")
		e.FullRound(t, 1, 2)
		before := e.Thread(t.ThreadID)
		all := e.Messages(t.ThreadID)
		first := e.Summarise(t, 2, 1, 4, "what was said")
		suite.Equal(e, "last message", first.LastSeq, int64(4))
		th := e.Thread(t.ThreadID)
		suite.Equal(e, "compactions", th.Compactions, int64(1))
		suite.Equal(e, "summarizedFrom", th.SummarizedFrom, agent.MessageRange(t.ThreadID, 1, 4))
		suite.Equal(e, "tokens", th.TotalTokens-before.TotalTokens, int64(35))
		suite.Equal(e, "price", th.TotalPrice-before.TotalPrice, 0.5)
		suite.Equal(e, "requests", th.RequestCount-before.RequestCount, int64(1))
		suite.Equal(e, "turn's tokens", e.Turn(t.ID).Usage.TotalTokens, th.TotalTokens)
		suite.Equal(e, "spent", suite.Must[memory.Spent](e)(e.S.Spent(e.Ctx, t.ThreadID)).Tokens, th.TotalTokens)
		suite.Equal(e, "messages", e.Messages(t.ThreadID), all)
		events := e.Events(t.ThreadID)
		last := events[len(events)-1]
		suite.Equal(e, "event", [2]string{last.Type, string(last.Data)}, [2]string{agent.EventContextSummary, `{"replacesFrom":1,"replacesTo":4,"summary":"what was said"}`})
		e.Unchanged(t.ThreadID, func() {
			start := suite.Must[memory.SummaryStart](e)(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 2)))
			suite.Equal(e, "stored", *start.Stored, first)
			suite.Equal(e, "again", suite.Must[memory.Summary](e)(e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 2, 1, 1, 4, "another"))), first)
		})
		suite.Equal(e, "summaries", suite.Must[[]memory.Summary](e)(e.S.Summaries(e.Ctx, t.ThreadID)), []memory.Summary{first})
	}},
	{Name: "a new attempt at a summary makes the one before stale; five lost ones are the limit", Run: func(e *suite.Env) {
		t := e.Started("s1")
		e.FullRound(t, 1, 1)
		for i := 1; i <= 5; i++ {
			suite.Equal(e, "attempt", suite.Must[memory.SummaryStart](e)(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, i))).Attempt, i)
		}
		_, err := e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 2, 4, 1, 2, "late"))
		e.Stale(err)
		_, err = e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 4))
		e.Stale(err)
		_, err = e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 6))
		suite.Equal(e, "code", agent.CodeOf(err), agent.CodeLimit)
	}},
	{Name: "a failed attempt at a summary is paid for, and another may follow", Run: func(e *suite.Env) {
		t := e.Started("s1")
		e.FullRound(t, 1, 1)
		before := e.Thread(t.ThreadID)
		suite.Must[memory.SummaryStart](e)(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 1)))
		fail := memory.SummaryFailure{ThreadID: t.ThreadID, TurnID: t.ID, Step: 2, Cause: memory.CauseFull, Attempt: 1, Usage: agent.Usage{PromptTokens: 7, TotalTokens: 7, Requests: 1}}
		e.Ok(e.S.FailSummary(e.Ctx, fail))
		e.Unchanged(t.ThreadID, func() { e.Ok(e.S.FailSummary(e.Ctx, fail)) })
		suite.Equal(e, "tokens", e.Thread(t.ThreadID).TotalTokens-before.TotalTokens, int64(7))
		_, err := e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 2, 1, 1, 2, "late"))
		e.Stale(err)
		suite.Equal(e, "attempt", suite.Must[memory.SummaryStart](e)(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 2))).Attempt, 2)
		suite.Must[memory.Summary](e)(e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 2, 2, 1, 2, "text")))
	}},
	{Name: "a summary replaces messages that are there, and never fewer than the one before", Run: func(e *suite.Env) {
		t := e.Started("s1")
		e.FullRound(t, 1, 2)
		e.Summarise(t, 2, 1, 4, "one")
		for _, to := range []int64{3, 9} {
			start := suite.Must[memory.SummaryStart](e)(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 3, int(to))))
			_, err := e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 3, start.Attempt, 1, to, "wrong"))
			suite.Equal(e, "code", agent.CodeOf(err), agent.CodeInvalid)
		}
	}},
	{Name: "no summary is made for a turn that is closed or is to be cancelled", Run: func(e *suite.Env) {
		t := e.Started("s1")
		start := suite.Must[memory.SummaryStart](e)(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 1, 1)))
		suite.Must[memory.CancelResult](e)(e.S.RequestCancel(e.Ctx, memory.CancelRequest{ThreadID: t.ThreadID}))
		_, err := e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 1, 2))
		suite.Equal(e, "error", err != nil && agent.CodeOf(err) != agent.CodeInternal, true)
		suite.Must[memory.Closed](e)(e.S.CloseTurn(e.Ctx, memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCancelled, Step: 1, Reason: agent.ReasonCancelled, Code: "cancelled"}))
		_, err = e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 1, start.Attempt, 1, 1, "late"))
		e.Stale(err)
	}},
	{Name: "warnings and the model that takes over are stored with the failed attempt", Run: func(e *suite.Env) {
		t := e.Started("s1")
		a := e.Begin(t, 1)
		f := suite.Failure(t, 1, a)
		f.NotCalled, f.Usage, f.Fallback = true, agent.Usage{}, "other"
		f.Warnings = []agent.Warning{{Code: agent.WarnFallback, Message: "other goes on"}}
		e.Ok(e.S.FailModel(e.Ctx, f))
		suite.Equal(e, "requests", e.Thread(t.ThreadID).RequestCount, int64(0))
		events := e.Events(t.ThreadID)
		last := events[len(events)-1]
		suite.Equal(e, "event", [2]string{last.Type, string(last.Data)}, [2]string{agent.EventWarning, `{"code":"model_fallback","message":"other goes on"}`})
		b := e.ModelBegin(t, 1)
		b.Fence.Number = 2
		start := suite.Must[memory.ModelStart](e)(e.S.BeginModel(e.Ctx, b))
		suite.Equal(e, "start", [3]string{start.Turn.Fallback, start.LastCode, start.LastErr}, [3]string{"other", f.Code, f.Message})
	}},
	{Name: "a model that takes no images is kept with its thread, and with a fork of that", Run: func(e *suite.Env) {
		t := e.Started("s1")
		for _, model := range []string{"one", "two/b:c@d", "one"} {
			f := suite.Failure(t, 1, e.Begin(t, 1))
			f.NoImages = model
			e.Ok(e.S.FailModel(e.Ctx, f))
		}
		models := []string{"one", "two/b:c@d"}
		start := suite.Must[memory.ModelStart](e)(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))
		suite.Equal(e, "models", start.Thread.NoImages, models)
		r := suite.Record(t, 1, start.Attempt, "done")
		suite.Must[memory.StoredReply](e)(e.S.SaveReply(e.Ctx, r))
		e.Close(suite.Completed(t, 1))
		suite.Equal(e, "of a fork", e.Thread(e.Fork(t.ThreadID, "", "f1").ThreadID).NoImages, models)
		b := e.SummaryBegin(e.Take(e.Send("s1", "m2").ThreadID), 1, 1)
		b.Cause = "other"
		_, err := e.S.BeginSummary(e.Ctx, b)
		e.Code(err, agent.CodeInvalid)
	}},
}

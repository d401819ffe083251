package memorytest

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func (e *env) summaryBegin(t memory.Turn, step, number int) memory.SummaryBegin {
	return memory.SummaryBegin{
		ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Cause: memory.CauseFull, Fence: memory.Fence{Scope: "summary", Number: number},
	}
}

func summaryRecord(t memory.Turn, step, attempt int, from, to int64, text string) memory.SummaryRecord {
	return memory.SummaryRecord{Attempt: attempt, Duration: time.Second, Summary: memory.Summary{
		ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Cause: memory.CauseFull, ReplacesFrom: from, ReplacesTo: to, Text: text,
		Window: 4096, Model: "m", Usage: agent.Usage{PromptTokens: 30, CompletionTokens: 5, TotalTokens: 35, Price: 0.5, Requests: 1},
	}}
}

// fullRound runs a step with n calls and saves its round.
func (e *env) fullRound(t memory.Turn, step, n int) {
	e.Helper()
	for _, c := range e.calls(t, step, n) {
		e.runTool(c, "ok")
	}
	e.saveRound(t, step)
}

func (e *env) summarise(t memory.Turn, step int, from, to int64, text string) memory.Summary {
	e.Helper()
	start := must[memory.SummaryStart](e)(e.s.BeginSummary(e.ctx, e.summaryBegin(t, step, 1)))
	return must[memory.Summary](e)(e.s.SaveSummary(e.ctx, summaryRecord(t, step, start.Attempt, from, to, text)))
}

var summaryRules = []rule{
	{"a summary is stored once, with its event and its cost; messages stay", func(e *env) {
		t := e.started("s1")
		e.fullRound(t, 1, 2)
		before := e.thread(t.ThreadID)
		all := e.messages(t.ThreadID)
		first := e.summarise(t, 2, 1, 4, "what was said")
		equal(e, "last message", first.LastSeq, int64(4))
		th := e.thread(t.ThreadID)
		equal(e, "compactions", th.Compactions, int64(1))
		equal(e, "summarizedFrom", th.SummarizedFrom, agent.MessageRange(t.ThreadID, 1, 4))
		equal(e, "tokens", th.TotalTokens-before.TotalTokens, int64(35))
		equal(e, "price", th.TotalPrice-before.TotalPrice, 0.5)
		equal(e, "requests", th.RequestCount-before.RequestCount, int64(1))
		equal(e, "turn's tokens", e.turn(t.ID).Usage.TotalTokens, th.TotalTokens)
		equal(e, "spent", must[memory.Spent](e)(e.s.Spent(e.ctx, t.ThreadID)).Tokens, th.TotalTokens)
		equal(e, "messages", e.messages(t.ThreadID), all)
		events := e.events(t.ThreadID)
		last := events[len(events)-1]
		equal(e, "event", [2]string{last.Type, string(last.Data)}, [2]string{agent.EventContextSummary, `{"replacesFrom":1,"replacesTo":4,"summary":"what was said"}`})
		e.unchanged(t.ThreadID, func() {
			start := must[memory.SummaryStart](e)(e.s.BeginSummary(e.ctx, e.summaryBegin(t, 2, 2)))
			equal(e, "stored", *start.Stored, first)
			equal(e, "again", must[memory.Summary](e)(e.s.SaveSummary(e.ctx, summaryRecord(t, 2, 1, 1, 4, "another"))), first)
		})
		equal(e, "summaries", must[[]memory.Summary](e)(e.s.Summaries(e.ctx, t.ThreadID)), []memory.Summary{first})
	}},
	{"a new attempt at a summary makes the one before stale; five lost ones are the limit", func(e *env) {
		t := e.started("s1")
		e.fullRound(t, 1, 1)
		for i := 1; i <= 5; i++ {
			equal(e, "attempt", must[memory.SummaryStart](e)(e.s.BeginSummary(e.ctx, e.summaryBegin(t, 2, i))).Attempt, i)
		}
		_, err := e.s.SaveSummary(e.ctx, summaryRecord(t, 2, 4, 1, 2, "late"))
		e.stale(err)
		_, err = e.s.BeginSummary(e.ctx, e.summaryBegin(t, 2, 4))
		e.stale(err)
		_, err = e.s.BeginSummary(e.ctx, e.summaryBegin(t, 2, 6))
		equal(e, "code", agent.CodeOf(err), agent.CodeLimit)
	}},
	{"a failed attempt at a summary is paid for, and another may follow", func(e *env) {
		t := e.started("s1")
		e.fullRound(t, 1, 1)
		before := e.thread(t.ThreadID)
		must[memory.SummaryStart](e)(e.s.BeginSummary(e.ctx, e.summaryBegin(t, 2, 1)))
		fail := memory.SummaryFailure{ThreadID: t.ThreadID, TurnID: t.ID, Step: 2, Cause: memory.CauseFull, Attempt: 1, Usage: agent.Usage{PromptTokens: 7, TotalTokens: 7, Requests: 1}}
		e.ok(e.s.FailSummary(e.ctx, fail))
		e.unchanged(t.ThreadID, func() { e.ok(e.s.FailSummary(e.ctx, fail)) })
		equal(e, "tokens", e.thread(t.ThreadID).TotalTokens-before.TotalTokens, int64(7))
		_, err := e.s.SaveSummary(e.ctx, summaryRecord(t, 2, 1, 1, 2, "late"))
		e.stale(err)
		equal(e, "attempt", must[memory.SummaryStart](e)(e.s.BeginSummary(e.ctx, e.summaryBegin(t, 2, 2))).Attempt, 2)
		must[memory.Summary](e)(e.s.SaveSummary(e.ctx, summaryRecord(t, 2, 2, 1, 2, "text")))
	}},
	{"a summary replaces messages that are there, and never fewer than the one before", func(e *env) {
		t := e.started("s1")
		e.fullRound(t, 1, 2)
		e.summarise(t, 2, 1, 4, "one")
		for _, to := range []int64{3, 9} {
			start := must[memory.SummaryStart](e)(e.s.BeginSummary(e.ctx, e.summaryBegin(t, 3, int(to))))
			_, err := e.s.SaveSummary(e.ctx, summaryRecord(t, 3, start.Attempt, 1, to, "wrong"))
			equal(e, "code", agent.CodeOf(err), agent.CodeInvalid)
		}
	}},
	{"no summary is made for a turn that is closed or is to be cancelled", func(e *env) {
		t := e.started("s1")
		start := must[memory.SummaryStart](e)(e.s.BeginSummary(e.ctx, e.summaryBegin(t, 1, 1)))
		must[memory.CancelResult](e)(e.s.RequestCancel(e.ctx, memory.CancelRequest{ThreadID: t.ThreadID}))
		_, err := e.s.BeginSummary(e.ctx, e.summaryBegin(t, 1, 2))
		equal(e, "error", err != nil && agent.CodeOf(err) != agent.CodeInternal, true)
		must[memory.Closed](e)(e.s.CloseTurn(e.ctx, memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCancelled, Step: 1, Reason: agent.ReasonCancelled, Code: "cancelled"}))
		_, err = e.s.SaveSummary(e.ctx, summaryRecord(t, 1, start.Attempt, 1, 1, "late"))
		e.stale(err)
	}},
	{"warnings and the model that takes over are stored with the failed attempt", func(e *env) {
		t := e.started("s1")
		a := e.begin(t, 1)
		f := failure(t, 1, a)
		f.NotCalled, f.Usage, f.Fallback = true, agent.Usage{}, "other"
		f.Warnings = []agent.Warning{{Code: agent.WarnFallback, Message: "other goes on"}}
		e.ok(e.s.FailModel(e.ctx, f))
		equal(e, "requests", e.thread(t.ThreadID).RequestCount, int64(0))
		events := e.events(t.ThreadID)
		last := events[len(events)-1]
		equal(e, "event", [2]string{last.Type, string(last.Data)}, [2]string{agent.EventWarning, `{"code":"model_fallback","message":"other goes on"}`})
		b := e.modelBegin(t, 1)
		b.Fence.Number = 2
		start := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
		equal(e, "start", [3]string{start.Turn.Fallback, start.LastCode, start.LastErr}, [3]string{"other", f.Code, f.Message})
	}},
	{"a model that takes no images is kept with its thread, and with a fork of that", func(e *env) {
		t := e.started("s1")
		for _, model := range []string{"one", "two/b:c@d", "one"} {
			f := failure(t, 1, e.begin(t, 1))
			f.NoImages = model
			e.ok(e.s.FailModel(e.ctx, f))
		}
		models := []string{"one", "two/b:c@d"}
		start := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 1)))
		equal(e, "models", start.Thread.NoImages, models)
		r := record(t, 1, start.Attempt, "done")
		must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, r))
		e.close(completed(t, 1))
		equal(e, "of a fork", e.thread(e.fork(t.ThreadID, "", "f1").ThreadID).NoImages, models)
		b := e.summaryBegin(e.take(e.send("s1", "m2").ThreadID), 1, 1)
		b.Cause = "other"
		_, err := e.s.BeginSummary(e.ctx, b)
		e.code(err, agent.CodeInvalid)
	}},
}

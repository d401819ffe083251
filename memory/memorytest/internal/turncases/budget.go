package turncases

import (
	"errors"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var budgetRules = []suite.Rule{
	{Name: "a model call reserves a part of the budget before it starts and settles it with its result", Run: func(e *suite.Env) {
		b := memory.Budget{Tokens: 1_000_000, Price: 100}
		t := e.Started("s1")
		r := e.ModelBegin(t, 1)
		r.Budget = b
		_, err := e.S.BeginModel(e.Ctx, r)
		e.Ok(err)
		suite.Equal(e, "reserved", e.Spent(t.ThreadID), memory.Spent{ReservedTokens: memory.DefaultReserve, Reservations: 1})
		_, err = e.S.BeginModel(e.Ctx, r)
		e.Ok(err)
		suite.Equal(e, "repeated", e.Spent(t.ThreadID).Reservations, 1)
		rec := suite.Record(t, 1, 1, "", suite.Lookup(1))
		suite.Must(e.S.SaveReply(e.Ctx, rec))(e)
		settled := memory.Spent{Tokens: 15, Price: 0.25, Time: 20 * time.Millisecond}
		suite.Equal(e, "settled", e.Spent(t.ThreadID), settled)
		suite.Must(e.S.SaveReply(e.Ctx, rec))(e)
		suite.Equal(e, "repeated", e.Spent(t.ThreadID), settled)
		e.RunTool(e.FirstCall(t, 1), "found")
		suite.Equal(e, "tools take time", e.Spent(t.ThreadID).Time, 27*time.Millisecond)
		e.SaveRound(t, 1)
		e.Ok(e.Within(b, t, 2))
		suite.Equal(e, "reserved by what was used", e.Spent(t.ThreadID).ReservedTokens, int64(memory.DefaultReserve+15))
	}},
	{Name: "a budget that is used up refuses the next model call of every thread of the tree and says why", Run: func(e *suite.Env) {
		for name, c := range map[string]struct {
			b   memory.Budget
			why string
		}{
			"tokens": {memory.Budget{Tokens: 30}, "30 tokens are used and the limit is 30"},
			"price":  {memory.Budget{Price: 0.4}, "$0.5000 are spent and the limit is $0.4000"},
			"time":   {memory.Budget{Time: 40 * time.Millisecond}, "40ms"},
		} {
			t := e.Started(name)
			e.Spend(c.b, t, 1, suite.Assign(1))
			child := e.Take(e.Open(suite.Delegation(e.FirstCall(t, 1), "researcher")).ChildThread)
			e.Spend(c.b, child, 1, suite.Lookup(1))
			e.RunTool(e.FirstCall(child, 1), "found")
			e.SaveRound(child, 1)
			e.Unchanged(t.ThreadID, func() {
				err := e.Within(c.b, child, 2)
				e.Code(err, agent.CodeLimit)
				suite.Contains(e, "reason", err.Error(), c.why)
			})
			e.Close(suite.Failed(child, 2, agent.ReasonLimit))
			e.Taken(t, 1)
			e.Code(e.Within(c.b, t, 2), agent.CodeLimit)
			e.Ok(e.Within(memory.Budget{}, t, 2))
			e.Sound(t.ThreadID)
		}
	}},
	{Name: "the rest of a budget that calls under way have reserved is waited for", Run: func(e *suite.Env) {
		b := memory.Budget{Tokens: 1000}
		t := e.Started("s1")
		calls := e.Spend(b, t, 1, suite.Assign(1), suite.Assign(2)).Calls
		one := e.Take(e.Open(suite.Delegation(calls[0], "researcher")).ChildThread)
		two := e.Take(e.Open(suite.Delegation(calls[1], "researcher")).ChildThread)
		e.Ok(e.Within(b, one, 1)) // alone, it may use the whole rest
		e.Unchanged(t.ThreadID, func() {
			if err := e.Within(b, two, 1); !errors.Is(err, memory.ErrBudgetReserved) {
				e.Fatalf("error %v, want %v", err, memory.ErrBudgetReserved)
			}
		})
		suite.Must(e.S.SaveReply(e.Ctx, suite.Record(one, 1, 1, "short")))(e)
		e.Ok(e.Within(b, two, 1))
	}},
	{Name: "a failed attempt is counted, and a turn that ends gives back what it reserved", Run: func(e *suite.Env) {
		b := memory.Budget{Tokens: 1_000_000}
		t := e.Started("s1")
		e.Ok(e.Within(b, t, 1))
		e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, 1)))
		cost := suite.Failure(t, 1, 1).Usage.TotalTokens
		suite.Equal(e, "failed", [3]int64{e.Spent(t.ThreadID).Tokens, int64(e.Spent(t.ThreadID).Reservations), cost}, [3]int64{cost, 0, cost})
		e.Ok(e.Within(b, t, 1))
		suite.Equal(e, "next attempt", e.Spent(t.ThreadID).Reservations, 1)
		e.Close(suite.Cancelled(t, 1))
		suite.Equal(e, "ended", e.Spent(t.ThreadID).Reservations, 0)
	}},
	{Name: "a message of a person renews the budget, the end of a background child does not", Run: func(e *suite.Env) {
		b := memory.Budget{Tokens: 15}
		t := e.Started("s1")
		e.Spend(b, t, 1, suite.Assign(1))
		r := suite.Delegation(e.FirstCall(t, 1), "researcher")
		r.Background = true
		d := e.Open(r)
		suite.Equal(e, "descendants", e.Spent(t.ThreadID).Descendants, 1)
		e.SaveRound(t, 1)
		e.Close(suite.Failed(t, 2, agent.ReasonLimit))
		child := e.Take(d.ChildThread)
		e.Close(suite.Failed(child, 1, agent.ReasonLimit))
		next := e.Take(t.ThreadID)
		suite.Equal(e, "kind", next.EntryKind, memory.EntryChild)
		e.Code(e.Within(b, next, 1), agent.CodeLimit)
		e.Close(suite.Failed(next, 1, agent.ReasonLimit))
		e.Send("s1", "m2")
		next = e.Take(t.ThreadID)
		suite.Equal(e, "renewed", e.Spent(t.ThreadID), memory.Spent{})
		e.Ok(e.Within(b, next, 1))
	}},
}

// lostUse is what an attempt with that stake and a streamed text costs.
func lostUse(text string) agent.Usage {
	n := int64(agent.EstimateTokens(text))
	return agent.Usage{PromptTokens: 100, CompletionTokens: n, TotalTokens: 100 + n, Price: float64(100 + 2*n), Requests: 1, Estimated: true}
}

// unmarked is a usage as turns have it: only messages say that some of it is estimated.
func unmarked(u agent.Usage) agent.Usage {
	u.Estimated = false
	return u
}

var accountRules = []suite.Rule{
	{Name: "an attempt that its worker left in mid-stream is charged by its stake and its text, once", Turn: func(e *suite.Env, t memory.Turn) {
		e.Staked(t)
		suite.Equal(e, "while it runs", e.Turn(t.ID).Usage, agent.Usage{})
		b := e.Begin(t, 1)
		lost := lostUse("half an answer")
		suite.Equals(e, "lost", e.Turn(t.ID).Usage, unmarked(lost), "spent", e.Spent(t.ThreadID).Tokens, lost.TotalTokens)
		e.Answer2(t, 1, b, "good")
		all := lost.Add(suite.Usage())
		all.Requests = 2
		suite.Equals(e, "turn", e.Turn(t.ID).Usage, unmarked(all), "thread", e.Thread(t.ThreadID).TotalTokens, all.TotalTokens)
		suite.Equal(e, "context window", e.Thread(t.ThreadID).ContextWindow.Prompt, suite.Usage().PromptTokens)
		ms := e.Messages(t.ThreadID)
		suite.Equals(e, "message", ms[len(ms)-1].Usage.TotalTokens, all.TotalTokens, "estimated", ms[len(ms)-1].Usage.Estimated, true)
	}},
	{Name: "a turn that ends in mid-stream charges what was under way, and its partial message shows it", Run: func(e *suite.Env) {
		for name, end := range map[string]func(memory.Turn) memory.CloseRequest{
			"cancelled":  func(t memory.Turn) memory.CloseRequest { return suite.Cancelled(t, 1) },
			"terminated": func(t memory.Turn) memory.CloseRequest { return suite.Failed(t, 1, agent.ReasonTerminated) },
		} {
			t := e.Started(name)
			e.Staked(t)
			e.Close(end(t))
			lost := lostUse("half an answer")
			suite.Equal(e, "turn", e.Turn(t.ID).Usage, unmarked(lost))
			ms := e.Messages(t.ThreadID)
			suite.Equal(e, "message", *ms[len(ms)-1].Usage, lost)
			e.Sound(t.ThreadID)
		}
	}},
	{Name: "what a lost attempt made is taken to be no more than its model may make", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Begin(t, 1)
		text := "word " + strings.Repeat("word ", 1000)
		c := suite.Chunk(t, 1, a, 0, text)
		c.Stake = suite.Stake()
		c.Stake.MostOutput = 50
		e.Ok(e.S.AppendChunk(e.Ctx, c))
		e.Begin(t, 1)
		suite.Equal(e, "tokens", e.Spent(t.ThreadID).Tokens, int64(150))
	}},
	{Name: "an attempt that reported its failure is charged with that alone, also when its turn is to be cancelled", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Staked(t)
		e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, a)))
		e.Close(suite.Cancelled(t, 1))
		use := suite.Failure(t, 1, a).Usage
		use.Requests = 1
		suite.Equal(e, "turn", e.Turn(t.ID).Usage, use)
		ms := e.Messages(t.ThreadID)
		suite.Equal(e, "message", *ms[len(ms)-1].Usage, use)
		e.Stale(e.S.FailModel(e.Ctx, suite.Failure(t, 1, a)))
	}},
	{Name: "failures of one class in a row are counted, another end and another model begin anew", Turn: func(e *suite.Env, t memory.Turn) {
		row := func(class agent.FailureClass, fallback string) [2]any {
			f := suite.Failure(t, 1, e.Begin(t, 1))
			f.Class, f.Fallback = class, fallback
			e.Ok(e.S.FailModel(e.Ctx, f))
			start := suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))(e)
			e.Ok(e.S.FailModel(e.Ctx, failureAs(f, start.Attempt)))
			return [2]any{start.LastClass, start.InARow}
		}
		suite.Equal(e, "first", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 1})
		suite.Equals(e, "third", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 3}, "another", row("", ""), [2]any{agent.FailureClass(""), 1})
		suite.Equal(e, "again", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 1})
		suite.Equal(e, "another model", row(agent.ClassEmpty, "other"), [2]any{agent.ClassEmpty, 0})
	}},
}

// failureAs is a failure of another attempt, with the same model.
func failureAs(f memory.ModelFailure, attempt int) memory.ModelFailure {
	f.Attempt, f.Fallback = attempt, ""
	return f
}

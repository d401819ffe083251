package memorytest

import (
	"errors"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func (e *env) spent(threadID string) memory.Spent {
	e.Helper()
	return must[memory.Spent](e)(e.s.Spent(e.ctx, threadID))
}

// within begins a step under a budget.
func (e *env) within(b memory.Budget, t memory.Turn, step int) error {
	e.Helper()
	r := e.modelBegin(t, step)
	r.Budget = b
	_, err := e.s.BeginModel(e.ctx, r)
	return err
}

// spend makes a whole model call of 15 tokens for $0.25 that takes 20 ms, under a budget.
func (e *env) spend(b memory.Budget, t memory.Turn, step int, calls ...agent.Call) memory.StoredReply {
	e.Helper()
	e.ok(e.within(b, t, step))
	return must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, record(t, step, 1, "", calls...)))
}

var budgetRules = []rule{
	{"a model call reserves a part of the budget before it starts and settles it with its result", func(e *env) {
		b := memory.Budget{Tokens: 1_000_000, Price: 100}
		t := e.started("s1")
		r := e.modelBegin(t, 1)
		r.Budget = b
		_, err := e.s.BeginModel(e.ctx, r)
		e.ok(err)
		equal(e, "reserved", e.spent(t.ThreadID), memory.Spent{ReservedTokens: memory.DefaultReserve, Reservations: 1})
		_, err = e.s.BeginModel(e.ctx, r)
		e.ok(err)
		equal(e, "repeated", e.spent(t.ThreadID).Reservations, 1)
		rec := record(t, 1, 1, "", lookup(1))
		must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, rec))
		settled := memory.Spent{Tokens: 15, Price: 0.25, Time: 20 * time.Millisecond}
		equal(e, "settled", e.spent(t.ThreadID), settled)
		must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, rec))
		equal(e, "repeated", e.spent(t.ThreadID), settled)
		e.runTool(e.firstCall(t, 1), "found")
		equal(e, "tools take time", e.spent(t.ThreadID).Time, 27*time.Millisecond)
		e.saveRound(t, 1)
		e.ok(e.within(b, t, 2))
		equal(e, "reserved by what was used", e.spent(t.ThreadID).ReservedTokens, int64(memory.DefaultReserve+15))
	}},
	{"a budget that is used up refuses the next model call of every thread of the tree and says why", func(e *env) {
		for name, c := range map[string]struct {
			b   memory.Budget
			why string
		}{
			"tokens": {memory.Budget{Tokens: 30}, "30 tokens are used and the limit is 30"},
			"price":  {memory.Budget{Price: 0.4}, "$0.5000 are spent and the limit is $0.4000"},
			"time":   {memory.Budget{Time: 40 * time.Millisecond}, "40ms"},
		} {
			t := e.started(name)
			e.spend(c.b, t, 1, assign(1))
			child := e.take(e.open(delegation(e.firstCall(t, 1), "researcher")).ChildThread)
			e.spend(c.b, child, 1, lookup(1))
			e.runTool(e.firstCall(child, 1), "found")
			e.saveRound(child, 1)
			e.unchanged(t.ThreadID, func() {
				err := e.within(c.b, child, 2)
				e.code(err, agent.CodeLimit)
				contains(e, "reason", err.Error(), c.why)
			})
			e.close(failed(child, 2, agent.ReasonLimit))
			e.takeResult(e.firstCall(t, 1))
			e.saveRound(t, 1)
			e.code(e.within(c.b, t, 2), agent.CodeLimit)
			e.ok(e.within(memory.Budget{}, t, 2))
			e.sound(t.ThreadID)
		}
	}},
	{"the rest of a budget that calls under way have reserved is waited for", func(e *env) {
		b := memory.Budget{Tokens: 1000}
		t := e.started("s1")
		calls := e.spend(b, t, 1, assign(1), assign(2)).Calls
		one := e.take(e.open(delegation(calls[0], "researcher")).ChildThread)
		two := e.take(e.open(delegation(calls[1], "researcher")).ChildThread)
		e.ok(e.within(b, one, 1)) // alone, it may use the whole rest
		e.unchanged(t.ThreadID, func() {
			if err := e.within(b, two, 1); !errors.Is(err, memory.ErrBudgetReserved) {
				e.Fatalf("error %v, want %v", err, memory.ErrBudgetReserved)
			}
		})
		must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, record(one, 1, 1, "short")))
		e.ok(e.within(b, two, 1))
		e.sound(t.ThreadID)
	}},
	{"a failed attempt is counted, and a turn that ends gives back what it reserved", func(e *env) {
		b := memory.Budget{Tokens: 1_000_000}
		t := e.started("s1")
		e.ok(e.within(b, t, 1))
		e.ok(e.s.FailModel(e.ctx, failure(t, 1, 1)))
		cost := failure(t, 1, 1).Usage.TotalTokens
		equal(e, "failed", [3]int64{e.spent(t.ThreadID).Tokens, int64(e.spent(t.ThreadID).Reservations), cost}, [3]int64{cost, 0, cost})
		e.ok(e.within(b, t, 1))
		equal(e, "next attempt", e.spent(t.ThreadID).Reservations, 1)
		e.close(cancelled(t, 1))
		equal(e, "ended", e.spent(t.ThreadID).Reservations, 0)
	}},
	{"a message of a person renews the budget, the end of a background child does not", func(e *env) {
		b := memory.Budget{Tokens: 15}
		t := e.started("s1")
		e.spend(b, t, 1, assign(1))
		r := delegation(e.firstCall(t, 1), "researcher")
		r.Background = true
		d := e.open(r)
		equal(e, "descendants", e.spent(t.ThreadID).Descendants, 1)
		e.saveRound(t, 1)
		e.close(failed(t, 2, agent.ReasonLimit))
		child := e.take(d.ChildThread)
		e.close(failed(child, 1, agent.ReasonLimit))
		next := e.take(t.ThreadID)
		equal(e, "kind", next.EntryKind, memory.EntryChild)
		e.code(e.within(b, next, 1), agent.CodeLimit)
		e.close(failed(next, 1, agent.ReasonLimit))
		e.send("s1", "m2")
		next = e.take(t.ThreadID)
		equal(e, "renewed", e.spent(t.ThreadID), memory.Spent{})
		e.ok(e.within(b, next, 1))
		e.sound(t.ThreadID)
	}},
}

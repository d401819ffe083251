package memorytest

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func (e *env) waited(t memory.Turn) memory.Waited {
	e.Helper()
	return must[memory.Waited](e)(e.s.Waited(e.ctx, t.ID))
}

var waitedRules = []rule{
	{"time that a turn, or one below it in the foreground, waits for people is known, counted once", func(e *env) {
		pass := e.h.Clock.Advance
		t := e.started("s1")
		calls := e.assigns(t, 1, 3)
		one := e.take(e.open(delegation(calls[0], "researcher")).ChildThread)
		two := e.take(e.open(delegation(calls[1], "researcher")).ChildThread)
		r := delegation(calls[2], "researcher")
		r.Background = true
		apart := e.take(e.open(r).ChildThread)
		pass(time.Second)
		equal(e, "nobody waits", e.waited(t), memory.Waited{})
		e.gated(apart, 1, agent.GateAsk)
		e.ask(apart, 1)
		pass(time.Minute)
		equal(e, "a background child waits by itself", e.waited(t), memory.Waited{})
		equal(e, "itself", e.waited(apart), memory.Waited{Time: time.Minute, Now: true})

		call := e.gated(one, 1, agent.GateAsk)[0]
		first := e.ask(one, 1)
		pass(10 * time.Second)
		e.gated(two, 1, agent.GateAsk)
		second := e.ask(two, 1)
		pass(10 * time.Second)
		equal(e, "both wait", e.waited(t), memory.Waited{Time: 20 * time.Second, Now: true})
		equal(e, "the second alone", e.waited(two), memory.Waited{Time: 10 * time.Second, Now: true})
		e.decide(decision(first.ID, memory.Approve))
		pass(5 * time.Second)
		e.decide(decision(second.ID, memory.Approve))
		pass(time.Hour)
		equal(e, "answered", e.waited(t), memory.Waited{Time: 25 * time.Second})
		equal(e, "the first alone", e.waited(one), memory.Waited{Time: 20 * time.Second})

		e.runTool(call, "ran")
		e.saveRound(one, 1)
		q := e.questioned(one, 2, "a?")[0]
		pass(time.Minute)
		equal(e, "a question", e.waited(t), memory.Waited{Time: 85 * time.Second, Now: true})
		e.answerTo(q.ID, "x")
		equal(e, "answered", e.waited(one), memory.Waited{Time: 80 * time.Second})
		_, err := e.s.Waited(e.ctx, "t0000000000000000")
		e.code(err, agent.CodeNotFound)
	}},
}

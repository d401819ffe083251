package turncases

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

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
		_, err := e.S.Waited(e.Ctx, "t0000000000000000")
		e.Code(err, agent.CodeNotFound)
	}},
}

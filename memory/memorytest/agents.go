package memorytest

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/port"
)

// listed are the thread ids of states, in order.
func (e *env) listed(states []port.AgentState, err error) []string {
	e.Helper()
	e.ok(err)
	ids := []string{}
	for _, s := range states {
		ids = append(ids, s.ThreadID)
	}
	return ids
}

var agentRules = []rule{
	{"a sub-agent's state goes from pending over running to its end, with times, result and use", func(e *env) {
		m := port.AgentStateManager{Store: e.s, UserID: user}
		get := must[port.AgentState](e)
		t := e.started("s1")
		d := e.delegate(t, 1, "researcher")
		s := get(m.Get(e.ctx, d.ChildThread))
		equal(e, "pending", [3]any{s.Status, s.StartedAt == nil, s.Description}, [3]any{agent.ThreadPending, true, "research"})
		child := e.take(d.ChildThread)
		s = get(m.Get(e.ctx, s.AgentID))
		equal(e, "running", [3]any{s.Status, s.StartedAt != nil, s.EndedAt == nil}, [3]any{agent.ThreadRunning, true, true})
		e.h.Clock.Advance(time.Second)
		e.answer(child, 1, "the finding")
		s = get(m.Get(e.ctx, d.ChildThread))
		equal(e, "completed", [3]any{s.Status, s.Result, s.Turns}, [3]any{agent.ThreadCompleted, "the finding", 1})
		equal(e, "use", s.Usage.TotalTokens, usage().TotalTokens)
		equal(e, "time", s.EndedAt.Sub(*s.StartedAt), time.Second)
		_, err := m.Get(e.ctx, "nobody-1-a")
		e.code(err, agent.CodeNotFound)
		_, err = port.AgentStateManager{Store: e.s, UserID: otherUser}.Get(e.ctx, d.ChildThread)
		e.code(err, agent.CodeNotFound)
	}},
	{"running, a parent's and all sub-agents are listed, main threads are not", func(e *env) {
		m := port.AgentStateManager{Store: e.s, UserID: user}
		one := e.started("s1")
		a := e.take(e.delegate(one, 1, "researcher").ChildThread)
		below := e.delegate(a, 1, "general").ChildThread
		two := e.started("s2")
		b := e.take(e.delegate(two, 1, "researcher").ChildThread)
		e.h.Clock.Advance(time.Second)
		e.answer(b, 1, "done")
		equal(e, "running", len(e.listed(m.GetRunning(e.ctx))), 2)
		equal(e, "of the first", e.listed(m.GetByParent(e.ctx, one.ThreadID)), []string{a.ThreadID})
		equal(e, "of the child", e.listed(m.GetByParent(e.ctx, a.ThreadID)), []string{below})
		equal(e, "all", len(e.listed(m.GetAll(e.ctx))), 3)
		equal(e, "of another user", len(e.listed(port.AgentStateManager{Store: e.s, UserID: otherUser}.GetAll(e.ctx))), 0)
		equal(e, "latest first", e.listed(m.GetAll(e.ctx))[0], b.ThreadID)
	}},
	{"a clean-up removes what ended long ago from the lists and says how many; a resume brings it back", func(e *env) {
		m := port.AgentStateManager{Store: e.s, UserID: user}
		cleaned := func(age time.Duration) int { return must[int](e)(m.Cleanup(e.ctx, age)) }
		t := e.started("s1")
		old := e.childDone(t, 1)
		e.h.Clock.Advance(time.Hour)
		running := e.take(e.delegate(t, 2, "researcher").ChildThread)
		equal(e, "young ones stay", cleaned(2*time.Hour), 0)
		equal(e, "another user's stay", must[int](e)(port.AgentStateManager{Store: e.s, UserID: otherUser}.Cleanup(e.ctx, 0)), 0)
		e.h.Clock.Advance(time.Hour)
		equal(e, "removed", cleaned(90*time.Minute), 1)
		equal(e, "again", cleaned(0), 0)
		equal(e, "listed", e.listed(m.GetAll(e.ctx)), []string{running.ThreadID})
		e.answer(running, 1, "done")
		e.takeResult(e.firstCall(t, 2))
		e.saveRound(t, 2)
		equal(e, "the thread stays", e.thread(old.ChildThread).Status, agent.ThreadCompleted)
		equal(e, "children", len(e.children(t.ThreadID)), 2)
		e.open(resume(e.assigns(t, 3, 1)[0], old.ChildThread))
		equal(e, "waiting", e.listed(m.GetRunning(e.ctx)), []string{old.ChildThread})
		equal(e, "what waits is not removed", cleaned(0), 1)
		equal(e, "listed", e.listed(m.GetAll(e.ctx)), []string{old.ChildThread})
		e.sound(t.ThreadID)
	}},
}

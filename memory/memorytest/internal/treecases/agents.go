package treecases

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
	"github.com/spool-agents/spool/memory/port"
)

var agentRules = []suite.Rule{
	{Name: "a sub-agent's state goes from pending over running to its end, with times, result and use", Run: func(e *suite.Env) {
		m := port.AgentStateManager{Store: e.S, UserID: suite.User}
		get := suite.Must[port.AgentState](e)
		t := e.Started("s1")
		d := e.Delegate(t, 1, "researcher")
		s := get(m.Get(e.Ctx, d.ChildThread))
		suite.Equal(e, "pending", [3]any{s.Status, s.StartedAt == nil, s.Description}, [3]any{agent.ThreadPending, true, "research"})
		child := e.Take(d.ChildThread)
		s = get(m.Get(e.Ctx, s.AgentID))
		suite.Equal(e, "running", [3]any{s.Status, s.StartedAt != nil, s.EndedAt == nil}, [3]any{agent.ThreadRunning, true, true})
		e.H.Clock.Advance(time.Second)
		e.Answer(child, 1, "the finding")
		s = get(m.Get(e.Ctx, d.ChildThread))
		suite.Equal(e, "completed", [3]any{s.Status, s.Result, s.Turns}, [3]any{agent.ThreadCompleted, "the finding", 1})
		suite.Equal(e, "use", s.Usage.TotalTokens, suite.Usage().TotalTokens)
		suite.Equal(e, "time", s.EndedAt.Sub(*s.StartedAt), time.Second)
		_, err := m.Get(e.Ctx, "nobody-1-a")
		e.Code(err, agent.CodeNotFound)
		_, err = port.AgentStateManager{Store: e.S, UserID: suite.OtherUser}.Get(e.Ctx, d.ChildThread)
		e.Code(err, agent.CodeNotFound)
	}},
	{Name: "running, a parent's and all sub-agents are listed, main threads are not", Run: func(e *suite.Env) {
		m := port.AgentStateManager{Store: e.S, UserID: suite.User}
		one := e.Started("s1")
		a := e.Take(e.Delegate(one, 1, "researcher").ChildThread)
		below := e.Delegate(a, 1, "general").ChildThread
		two := e.Started("s2")
		b := e.Take(e.Delegate(two, 1, "researcher").ChildThread)
		e.H.Clock.Advance(time.Second)
		e.Answer(b, 1, "done")
		suite.Equal(e, "running", len(e.Listed(m.GetRunning(e.Ctx))), 2)
		suite.Equal(e, "of the first", e.Listed(m.GetByParent(e.Ctx, one.ThreadID)), []string{a.ThreadID})
		suite.Equal(e, "of the child", e.Listed(m.GetByParent(e.Ctx, a.ThreadID)), []string{below})
		suite.Equal(e, "all", len(e.Listed(m.GetAll(e.Ctx))), 3)
		suite.Equal(e, "of another user", len(e.Listed(port.AgentStateManager{Store: e.S, UserID: suite.OtherUser}.GetAll(e.Ctx))), 0)
		suite.Equal(e, "latest first", e.Listed(m.GetAll(e.Ctx))[0], b.ThreadID)
	}},
	{Name: "a clean-up removes what ended long ago from the lists and says how many; a resume brings it back", Run: func(e *suite.Env) {
		m := port.AgentStateManager{Store: e.S, UserID: suite.User}
		cleaned := func(age time.Duration) int { return suite.Must[int](e)(m.Cleanup(e.Ctx, age)) }
		t := e.Started("s1")
		old := e.ChildDone(t, 1)
		e.H.Clock.Advance(time.Hour)
		running := e.Take(e.Delegate(t, 2, "researcher").ChildThread)
		suite.Equal(e, "young ones stay", cleaned(2*time.Hour), 0)
		suite.Equal(e, "another user's stay", suite.Must[int](e)(port.AgentStateManager{Store: e.S, UserID: suite.OtherUser}.Cleanup(e.Ctx, 0)), 0)
		e.H.Clock.Advance(time.Hour)
		suite.Equal(e, "removed", cleaned(90*time.Minute), 1)
		suite.Equal(e, "again", cleaned(0), 0)
		suite.Equal(e, "listed", e.Listed(m.GetAll(e.Ctx)), []string{running.ThreadID})
		e.Answer(running, 1, "done")
		e.TakeResult(e.FirstCall(t, 2))
		e.SaveRound(t, 2)
		suite.Equal(e, "the thread stays", e.Thread(old.ChildThread).Status, agent.ThreadCompleted)
		suite.Equal(e, "children", len(e.Children(t.ThreadID)), 2)
		e.Open(suite.Resume(e.Assigns(t, 3, 1)[0], old.ChildThread))
		suite.Equal(e, "waiting", e.Listed(m.GetRunning(e.Ctx)), []string{old.ChildThread})
		suite.Equal(e, "what waits is not removed", cleaned(0), 1)
		suite.Equal(e, "listed", e.Listed(m.GetAll(e.Ctx)), []string{old.ChildThread})
		e.Sound(t.ThreadID)
	}},
}

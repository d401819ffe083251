// Package treecases has the rules of sub-agents, and of cancelling whole trees.
package treecases

import (
	"fmt"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
	"github.com/spool-agents/spool/memory/port"
)

var delegationRules = []suite.Rule{
	{Name: "a delegation makes thread, task, linked event and entry in one write", Turn: func(e *suite.Env, t memory.Turn) {
		c := e.Assigns(t, 1, 1)[0]
		d := e.Open(suite.Delegation(c, "researcher"))
		parsed, err := agent.ParseThreadID(d.ChildThread)
		e.Ok(err)
		suite.Equal(e, "type", parsed.AgentType, "researcher")
		suite.Equal(e, "agent id", parsed.AgentID, agent.NewAgentID("researcher", e.Call(c.ID).CreatedAt, t.ThreadID, t.ID, c.ID))
		suite.Equal(e, "task", d.TaskID, agent.TaskID(c.ID))
		th := e.Thread(d.ChildThread)
		suite.Equal(e, "kind and status", [2]string{string(th.Kind), string(th.Status)}, [2]string{"subagent", "pending"})
		suite.Equal(e, "links", [4]string{th.ParentThreadID, th.RootThreadID, th.ParentToolCallID, th.TaskID}, [4]string{t.ThreadID, t.ThreadID, c.ID, d.TaskID})
		suite.Equal(e, "owner, chat, depth", [3]any{th.UserID, th.ChatID, th.Depth}, [3]any{suite.User, t.ThreadID, 1})
		suite.Equals(e, "config", th.Config.SystemPrompt, "You research.", "workdir", th.Workdir, "/w")
		k := e.Task(t.ThreadID, d.TaskID)
		suite.Equal(e, "task", [4]string{k.Type, k.Name, k.SubAgentID, string(k.Status)}, [4]string{"agent", "agent:researcher", d.ChildThread, "pending"})
		ev := e.EventsOf(t.ThreadID, agent.EventToolCall)
		suite.Equals(e, "events", len(ev), 1, "link", [2]any{ev[0]["toolCallId"], ev[0]["sub_agent_thread_id"]}, [2]any{c.ID, d.ChildThread})
		got := e.Call(c.ID)
		suite.Equal(e, "call", [3]string{string(got.Status), got.SubAgentThreadID, got.SubAgentID}, [3]string{"running", d.ChildThread, parsed.AgentID})
		in := e.Inbox(d.ChildThread)
		suite.Equal(e, "entries", len(in), 1)
		suite.Equal(e, "entry", [4]string{string(in[0].Kind), in[0].TurnID, in[0].DelegatorThread, string(in[0].State)}, [4]string{"assign", d.ChildTurn, t.ThreadID, "waiting"})
	}},
	{Name: "a repeated delegation makes no second child", Turn: func(e *suite.Env, t memory.Turn) {
		r := suite.Delegation(e.Assigns(t, 1, 1)[0], "researcher")
		first := e.Open(r)
		e.Unchanged(t.ThreadID, func() { suite.Equal(e, "delegation", e.Open(r), first) })
		e.Take(first.ChildThread)
		e.Unchanged(t.ThreadID, func() { suite.Equal(e, "delegation", e.Open(r), first) })
	}},
	{Name: "the child's answer becomes the result of the call, exactly once", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Delegate(t, 1, "researcher")
		c := e.FirstCall(t, 1)
		suite.Equal(e, "before the start", e.TakeResult(c), memory.ChildResult{NeedsStart: true, ChildThread: d.ChildThread})
		child := e.Take(d.ChildThread)
		suite.Equal(e, "turn", child.ID, d.ChildTurn)
		suite.Equal(e, "delegator", [3]string{child.DelegatorThread, child.DelegatorTurn, child.DelegatorCall}, [3]string{t.ThreadID, t.ID, c.ID})
		suite.Equals(e, "task of the turn", child.TaskID, d.TaskID, "while it runs", e.TakeResult(c), memory.ChildResult{ChildThread: d.ChildThread})
		suite.Equal(e, "task", e.Task(t.ThreadID, d.TaskID).Status, agent.TaskRunning)
		ms := e.Messages(d.ChildThread)
		suite.Equal(e, "child's message", [2]string{string(ms[0].Role), ms[0].Content.String()}, [2]string{"user", "find out"})
		closed := e.Answer(child, 1, "the finding")
		if closed.Notify == nil || closed.Notify.ThreadID != t.ThreadID {
			e.Fatalf("the close notifies %+v, want %s", closed.Notify, t.ThreadID)
		}
		suite.Equals(e, "entry", e.Entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryWaiting, "done", e.TakeResult(c).Done, true)
		suite.Equal(e, "entry", e.Entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryTaken)
		suite.Equal(e, "status", e.Call(c.ID).Status, agent.CallSuccess)
		suite.Contains(e, "result", e.Call(c.ID).Result, "the finding")
		e.Unchanged(t.ThreadID, func() {
			suite.Equal(e, "done", e.TakeResult(c).Done, true)
			e.Close(suite.Completed(child, 1))
		})
		k := e.Task(t.ThreadID, d.TaskID)
		suite.Equal(e, "task", k.Status, agent.TaskSuccess)
		suite.Contains(e, "task result", k.Result, "the finding")
		ev := e.EventsOf(t.ThreadID, agent.EventToolResponse)
		suite.Equals(e, "responses", len(ev), 1, "link", ev[0]["sub_agent_thread_id"], any(d.ChildThread))
		suite.Equal(e, "child", e.Thread(d.ChildThread).Status, agent.ThreadCompleted)
		e.SaveRound(t, 1)
		e.Answer(t, 2, "done")
	}},
	{Name: "a foreground child's end does not open a turn of its delegator", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		e.Answer(child, 1, "the finding")
		suite.Equal(e, "steered", e.Steered(t, 1), 0)
		suite.Equal(e, "entry", e.Entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryWaiting)
		suite.Equal(e, "done", e.TakeResult(e.FirstCall(t, 1)).Done, true)
	}},
	{Name: "a child that failed, timed out or was cancelled is told to its delegator as such", Run: func(e *suite.Env) {
		for i, c := range []struct {
			close  func(memory.Turn, int) memory.CloseRequest
			thread agent.ThreadStatus
			task   agent.TaskStatus
		}{
			{func(t memory.Turn, n int) memory.CloseRequest { return suite.Failed(t, n, agent.ReasonError) }, agent.ThreadFailed, agent.TaskFailed},
			{func(t memory.Turn, n int) memory.CloseRequest { return suite.Failed(t, n, agent.ReasonTimeout) }, agent.ThreadFailed, agent.TaskFailed},
			{func(t memory.Turn, n int) memory.CloseRequest { return suite.Failed(t, n, agent.ReasonTerminated) }, agent.ThreadFailed, agent.TaskFailed},
			{suite.Cancelled, agent.ThreadCancelled, agent.TaskCancelled},
		} {
			t := e.Started(fmt.Sprintf("s%d", i))
			d := e.Delegate(t, 1, "researcher")
			child := e.Take(d.ChildThread)
			e.Close(c.close(child, 1))
			suite.Equal(e, "done", e.TakeResult(e.FirstCall(t, 1)).Done, true)
			got := e.FirstCall(t, 1)
			if !got.Status.Final() || got.Status == agent.CallSuccess {
				e.Errorf("the call of a child that ended %s is %s", c.thread, got.Status)
			}
			suite.Equals(e, "thread", e.Thread(d.ChildThread).Status, c.thread, "task", e.Task(t.ThreadID, d.TaskID).Status, c.task)
			e.SaveRound(t, 1)
			e.Answer(t, 2, "so be it")
			e.Sound(t.ThreadID)
		}
	}},
	{Name: "children of one reply, even of one type, are distinct and keep their results apart", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Assigns(t, 1, 4)
		seen := map[string]bool{}
		turns := make([]memory.Turn, len(calls))
		for i, c := range calls {
			d := e.Open(suite.Delegation(c, "researcher"))
			seen[d.ChildThread] = true
			turns[i] = e.Take(d.ChildThread)
		}
		suite.Equal(e, "children", len(seen), len(calls))
		for i, child := range turns {
			e.Reply(child, 1, fmt.Sprintf("finding-%d", i))
		}
		e.AtOnce(len(turns), func(i int) error { _, err := e.S.CloseTurn(e.Ctx, suite.Completed(turns[i], 1)); return err })
		for i, c := range calls {
			suite.Equal(e, "done", e.TakeResult(c).Done, true)
			suite.Contains(e, "result", e.Call(c.ID).Result, fmt.Sprintf("finding-%d", i))
		}
		for i, th := range e.Children(t.ThreadID) {
			suite.Equal(e, "order of creation", th.ParentToolCallID, calls[i].ID)
		}
		e.SaveRound(t, 1)
	}},
	{Name: "a grandchild knows its root and its depth", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Child(child, 1)
		th := e.Thread(grand.ThreadID)
		suite.Equal(e, "links", [3]any{th.ParentThreadID, th.RootThreadID, th.Depth}, [3]any{child.ThreadID, t.ThreadID, 2})
		tree := suite.Must(e.S.Threads(e.Ctx, memory.ThreadFilter{Root: t.ThreadID, All: true, Limit: 10}))(e)
		suite.Equal(e, "tree", len(tree), 3)
		e.Answer(grand, 1, "deep")
		e.Taken(child, 1)
		e.Answer(child, 2, "less deep")
		e.Taken(t, 1)
	}},
	{Name: "a sub-agent that shares its parent's context is given what was there when it was made, for good", Turn: func(e *suite.Env, t memory.Turn) {
		e.Step(t, 1, "known")
		r := suite.Delegation(e.Assigns(t, 2, 1)[0], "researcher")
		r.Config.ShareContext = true
		d := e.Open(r)
		suite.Equal(e, "shared", e.Thread(d.ChildThread).Config.SharedSeq, int64(3))
		e.Answer(e.Take(d.ChildThread), 1, "the finding")
		e.Taken(t, 2)
		again := suite.Delegation(e.Assigns(t, 3, 1)[0], "researcher")
		again.Resume = d.ChildThread
		e.Open(again)
		e.Take(d.ChildThread)
		suite.Equal(e, "shared", e.Thread(d.ChildThread).Config.SharedSeq, int64(3))
		suite.Equal(e, "not shared", e.Thread(e.Background(e.Take(d.ChildThread), 1, "general").ChildThread).Config.SharedSeq, int64(0))
	}},
	{Name: "a refusal is the failed result of the call, and nothing is made", Turn: func(e *suite.Env, t memory.Turn) {
		r := suite.Delegation(e.Assigns(t, 1, 1)[0], "researcher")
		r.Refusal, r.RefusalReason = "agent researcher is not enabled", agent.ErrPermissionDenied
		e.Refused(r)
		c := e.Call(r.CallID)
		suite.Equal(e, "result", [2]string{c.Result, string(c.ErrorReason)}, [2]string{r.Refusal, "permission_denied"})
		suite.Equal(e, "tool_call events", len(e.EventsOf(t.ThreadID, agent.EventToolCall)), 1)
		e.SaveRound(t, 1)
		e.Answer(t, 2, "then not")
	}},
	{Name: "depth zero disables delegation", Turn: func(e *suite.Env, t memory.Turn) {
		r := suite.Delegation(e.Assigns(t, 1, 1)[0], "researcher")
		r.Limits.MaxDepth = 0
		e.Refused(r)
	}},
	{Name: "deeper than the depth limit is refused", Turn: func(e *suite.Env, t memory.Turn) {
		for range 3 {
			t = e.Child(t, 1)
		}
		suite.Equal(e, "depth", e.Thread(t.ThreadID).Depth, 3)
		e.Refused(suite.Delegation(e.Assigns(t, 1, 1)[0], "researcher"))
	}},
	{Name: "more open children than the fan-out limit are refused until one ends", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Assigns(t, 1, 4)
		narrow := func(c agent.ToolCall) memory.DelegationRequest {
			r := suite.Delegation(c, "researcher")
			r.Limits.MaxFanOut = 2
			return r
		}
		first := e.Open(narrow(calls[0]))
		suite.Equal(e, "second", e.Open(narrow(calls[1])).Refused, false)
		e.Refused(narrow(calls[2]))
		e.Answer(e.Take(first.ChildThread), 1, "done")
		e.TakeResult(calls[0])
		suite.Equal(e, "after one ended", e.Open(narrow(calls[3])).Refused, false)
	}},
	{Name: "more descendants than the tree may have are refused", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Assigns(t, 1, 2)
		child := e.Take(e.Open(suite.Delegation(calls[0], "researcher")).ChildThread)
		e.Child(child, 1)
		r := suite.Delegation(calls[1], "researcher")
		r.Limits.MaxDescendants = 2
		e.Refused(r)
	}},
}

var agentRules = []suite.Rule{
	{Name: "a sub-agent's state goes from pending over running to its end, with times, result and use", Run: func(e *suite.Env) {
		m := port.AgentStateManager{Store: e.S, UserID: suite.User}
		t := e.Started("s1")
		d := e.Delegate(t, 1, "researcher")
		s := suite.Must(m.Get(e.Ctx, d.ChildThread))(e)
		suite.Equal(e, "pending", [3]any{s.Status, s.StartedAt == nil, s.Description}, [3]any{agent.ThreadPending, true, "research"})
		child := e.Take(d.ChildThread)
		s = suite.Must(m.Get(e.Ctx, s.AgentID))(e)
		suite.Equal(e, "running", [3]any{s.Status, s.StartedAt != nil, s.EndedAt == nil}, [3]any{agent.ThreadRunning, true, true})
		e.H.Clock.Advance(time.Second)
		e.Answer(child, 1, "the finding")
		s = suite.Must(m.Get(e.Ctx, d.ChildThread))(e)
		suite.Equal(e, "completed", [3]any{s.Status, s.Result, s.Turns}, [3]any{agent.ThreadCompleted, "the finding", 1})
		suite.Equals(e, "use", s.Usage.TotalTokens, suite.Usage().TotalTokens, "time", s.EndedAt.Sub(*s.StartedAt), time.Second)
		suite.Fails(m.Get(e.Ctx, "nobody-1-a"))(e, agent.CodeNotFound)
		suite.Fails(port.AgentStateManager{Store: e.S, UserID: suite.OtherUser}.Get(e.Ctx, d.ChildThread))(e, agent.CodeNotFound)
	}},
	{Name: "running, a parent's and all sub-agents are listed, main threads are not", Run: func(e *suite.Env) {
		m := port.AgentStateManager{Store: e.S, UserID: suite.User}
		one := e.Started("s1")
		a := e.Child(one, 1)
		below := e.Delegate(a, 1, "general").ChildThread
		two := e.Started("s2")
		b := e.Child(two, 1)
		e.H.Clock.Advance(time.Second)
		e.Answer(b, 1, "done")
		suite.Equal(e, "running", len(e.Listed(m.GetRunning(e.Ctx))), 2)
		suite.Equal(e, "of the first", e.Listed(m.GetByParent(e.Ctx, one.ThreadID)), []string{a.ThreadID})
		suite.Equals(e, "of the child", e.Listed(m.GetByParent(e.Ctx, a.ThreadID)), []string{below}, "all", len(e.Listed(m.GetAll(e.Ctx))), 3)
		suite.Equal(e, "of another user", len(e.Listed(port.AgentStateManager{Store: e.S, UserID: suite.OtherUser}.GetAll(e.Ctx))), 0)
		suite.Equal(e, "latest first", e.Listed(m.GetAll(e.Ctx))[0], b.ThreadID)
	}},
	{Name: "a clean-up removes what ended long ago from the lists and says how many; a resume brings it back", Run: func(e *suite.Env) {
		m := port.AgentStateManager{Store: e.S, UserID: suite.User}
		cleaned := func(age time.Duration) int { return suite.Must(m.Cleanup(e.Ctx, age))(e) }
		t := e.Started("s1")
		old := e.ChildDone(t, 1)
		e.H.Clock.Advance(time.Hour)
		running := e.Child(t, 2)
		suite.Equal(e, "young ones stay", cleaned(2*time.Hour), 0)
		suite.Equal(e, "another user's stay", suite.Must(port.AgentStateManager{Store: e.S, UserID: suite.OtherUser}.Cleanup(e.Ctx, 0))(e), 0)
		e.H.Clock.Advance(time.Hour)
		suite.Equals(e, "removed", cleaned(90*time.Minute), 1, "again", cleaned(0), 0)
		suite.Equal(e, "listed", e.Listed(m.GetAll(e.Ctx)), []string{running.ThreadID})
		e.Answer(running, 1, "done")
		e.Taken(t, 2)
		suite.Equals(e, "the thread stays", e.Thread(old.ChildThread).Status, agent.ThreadCompleted, "children", len(e.Children(t.ThreadID)), 2)
		e.Open(suite.Resume(e.Assigns(t, 3, 1)[0], old.ChildThread))
		suite.Equals(e, "waiting", e.Listed(m.GetRunning(e.Ctx)), []string{old.ChildThread}, "what waits is not removed", cleaned(0), 1)
		suite.Equal(e, "listed", e.Listed(m.GetAll(e.Ctx)), []string{old.ChildThread})
	}},
}

// Groups are the cases by subject.
var Groups = []suite.Group{
	{Name: "delegation", Rules: delegationRules},
	{Name: "background", Rules: backgroundRules},
	{Name: "resume", Rules: resumeRules},
	{Name: "agents", Rules: agentRules},
	{Name: "cascade", Rules: cascadeRules},
	{Name: "cancel", Rules: cancelRules},
	{Name: "cancel-all", Rules: cancelAllRules},
	{Name: "usage", Rules: usageRules},
}

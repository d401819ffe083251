package treecases

import (
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var backgroundRules = []suite.Rule{
	{Name: "a background delegation has its result at once, and the turn can end before the child", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Background(t, 1, "researcher")
		suite.Equal(e, "call", e.FirstCall(t, 1).Status, agent.CallSuccess)
		e.SaveRound(t, 1)
		e.Answer(t, 2, "it is on its way")
		suite.Equals(e, "thread", e.Thread(t.ThreadID).Status, agent.ThreadCompleted, "task", e.Task(t.ThreadID, d.TaskID).Status, agent.TaskPending)
		child := e.Take(d.ChildThread)
		suite.Equals(e, "background", child.Background, true, "task", e.Task(t.ThreadID, d.TaskID).Status, agent.TaskRunning)
	}},
	{Name: "its end goes into a busy delegator's turn before the next model call, once", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Background(t, 1, "researcher")
		e.SaveRound(t, 1)
		child := e.Take(d.ChildThread)
		e.Answer(child, 1, "the finding")
		suite.Equal(e, "task", e.Task(t.ThreadID, d.TaskID).Status, agent.TaskSuccess)
		before := len(e.Messages(t.ThreadID))
		b := e.ModelBegin(t, 2)
		st := suite.Must(e.S.BeginModel(e.Ctx, b))(e)
		suite.Equal(e, "steered", st.Steered, 1)
		ms := e.Messages(t.ThreadID)
		suite.Equal(e, "messages", len(ms), before+1)
		suite.Contains(e, "message", ms[before].Content.String(), "the finding")
		suite.Equal(e, "entry", e.Entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryTaken)
		b.Fence.Number = 2
		st = suite.Must(e.S.BeginModel(e.Ctx, b))(e)
		suite.Equals(e, "messages", len(e.Messages(t.ThreadID)), before+1, "next", e.Answer2(t, 2, st.Attempt, "the child says so").Next, "")
		suite.Equal(e, "responses", len(e.EventsOf(t.ThreadID, agent.EventToolResponse)), 1)
	}},
	{Name: "its end after the last model call is the delegator's next turn", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Background(t, 1, "researcher")
		e.SaveRound(t, 1)
		child := e.Take(d.ChildThread)
		e.Reply(t, 2, "it is on its way")
		e.Answer(child, 1, "the finding")
		next := e.Close(suite.Completed(t, 2)).Next
		if next == "" {
			e.Fatalf("the close took nothing")
		}
		suite.Equal(e, "kind", e.Turn(next).EntryKind, memory.EntryChild)
		e.Answer(e.Turn(next), 1, "the child says so")
	}},
	{Name: "its end opens a turn of an idle main delegator", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Away(t)
		child := e.Take(d.ChildThread)
		c := e.Answer(child, 1, "the finding")
		if c.Notify == nil || c.Notify.ThreadID != t.ThreadID {
			e.Fatalf("the close notifies %+v, want the idle %s", c.Notify, t.ThreadID)
		}
		suite.Equal(e, "entry", e.Entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryWaiting)
		next := e.Take(t.ThreadID)
		suite.Equal(e, "kind", next.EntryKind, memory.EntryChild)
		ms := e.Messages(t.ThreadID)
		suite.Contains(e, "message", ms[len(ms)-1].Content.String(), "the finding")
		suite.Equal(e, "once", suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: t.ThreadID}))(e).Turn.ID, next.ID)
		e.Answer(next, 1, "the child says so")
	}},
	{Name: "its end under an idle sub-agent goes to the nearest ancestor with an open turn", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Background(child, 1, "general")
		e.SaveRound(child, 1)
		e.Answer(child, 2, "I have a helper")
		e.Taken(t, 1)
		g := e.Take(grand.ChildThread)
		c := e.Answer(g, 1, "deep finding")
		suite.Equals(e, "notified", c.Notify.ThreadID, t.ThreadID, "entry", e.Entry(t.ThreadID, memory.EntryChild, g.ID).State, memory.EntryWaiting)
		suite.Equal(e, "steered", suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 2)))(e).Steered, 1)
		ms := e.Messages(t.ThreadID)
		suite.Contains(e, "report", ms[len(ms)-1].Content.String(), "\nstarted by: "+e.Thread(child.ThreadID).AgentID+"\n")
	}},
	{Name: "whoever is told of another's sub-agent is told who alone can resume it", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Apart(child, 1)
		great := e.Apart(grand, 1)
		e.Close(suite.Failed(great, 1, agent.ReasonError)) // grand is at work, but reads it no more
		e.Close(suite.Failed(grand, 2, agent.ReasonError)) // the same of child
		e.Close(suite.Failed(child, 2, agent.ReasonError))
		e.Taken(t, 1)
		suite.Equal(e, "told", suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 2)))(e).Steered, 2)
		id := func(turn memory.Turn) string { return e.Thread(turn.ThreadID).AgentID }
		text := map[string]string{}
		for _, m := range e.Messages(t.ThreadID) {
			text[m.Source] = m.Content.String()
		}
		suite.Contains(e, "of grand", text["agent:"+grand.ThreadID], "Only the agent that started it can resume it: to go on from there, resume "+id(child)+" and tell it to.")
		suite.Contains(e, "of great", text["agent:"+great.ThreadID], "resume "+id(child)+" and tell it to have "+id(grand)+" do that.")
	}},
	{Name: "an end that was read with task_output is reported in short", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Background(t, 1, "researcher")
		e.SaveRound(t, 1)
		child := e.Take(d.ChildThread)
		read := e.Reply(t, 2, "", agent.NewCall("x", agent.ToolTaskOutput, "{}")).Calls[0]
		e.Answer(child, 1, "the finding")
		text := e.Entry(t.ThreadID, memory.EntryChild, child.ID).Content.String()
		e.RunTool(read, strings.Replace(text, "[Background agent researcher ended: success]", "[Agent researcher: success]", 1))
		e.SaveRound(t, 2)
		suite.Equal(e, "told", suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 3)))(e).Steered, 1)
		ms := e.Messages(t.ThreadID)
		report := ms[len(ms)-1].Content.String()
		suite.Contains(e, "report", report, "[Background agent researcher ended: success]")
		suite.Contains(e, "report", report, "You have read its result with task_output already.")
		suite.Equal(e, "the finding, again", strings.Contains(report, "the finding"), false)
	}},
	{Name: "sub-agents and tasks are listed in the order of their calls, in whatever order they were made", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Assigns(t, 1, 3)
		var want, got, tasks []string
		for _, i := range []int{2, 0, 1} {
			e.H.Clock.Advance(time.Second)
			e.Open(suite.Delegation(calls[i], "general"))
		}
		for _, c := range calls {
			want = append(want, e.Call(c.ID).SubAgentThreadID)
		}
		for _, th := range suite.Must(e.S.Children(e.Ctx, t.ThreadID))(e) {
			got = append(got, th.ID)
		}
		for _, k := range suite.Must(e.S.Tasks(e.Ctx, t.ThreadID))(e) {
			tasks = append(tasks, k.SubAgentID)
		}
		suite.Equals(e, "sub-agents", got, want, "tasks", tasks, want)
	}},
	{Name: "its end goes to the root when no ancestor has an open turn", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Background(child, 1, "general")
		e.SaveRound(child, 1)
		e.Answer(child, 2, "I have a helper")
		e.Taken(t, 1)
		e.Answer(t, 2, "done")
		g := e.Take(grand.ChildThread)
		e.Answer(g, 1, "deep finding")
		suite.Equal(e, "entry", e.Entry(t.ThreadID, memory.EntryChild, g.ID).State, memory.EntryWaiting)
		suite.Equal(e, "kind", e.Take(t.ThreadID).EntryKind, memory.EntryChild)
	}},
	{Name: "its end goes to a sub-agent that delegated it and has an open turn", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Background(child, 1, "general")
		e.SaveRound(child, 1)
		g := e.Take(grand.ChildThread)
		suite.Equal(e, "notified", e.Answer(g, 1, "deep finding").Notify.ThreadID, child.ThreadID)
		suite.Equal(e, "steered", suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(child, 2)))(e).Steered, 1)
	}},
	{Name: "a background child that failed is reported too", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Away(t)
		child := e.Take(d.ChildThread)
		e.Close(suite.Failed(child, 1, agent.ReasonTimeout))
		suite.Equals(e, "task", e.Task(t.ThreadID, d.TaskID).Status, agent.TaskFailed, "kind", e.Take(t.ThreadID).EntryKind, memory.EntryChild)
	}},
	{Name: "several background children that end together are reported once each", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Assigns(t, 1, 3)
		var turns []memory.Turn
		for _, c := range calls {
			r := suite.Delegation(c, "researcher")
			r.Background = true
			d := e.Open(r)
			if got := e.Call(c.ID); !got.Status.Final() {
				e.Ok(e.S.SaveResult(e.Ctx, suite.Result(got, got.Attempts, "started")))
			}
			turns = append(turns, e.Take(d.ChildThread))
		}
		e.SaveRound(t, 1)
		for _, child := range turns {
			e.Answer(child, 1, "finding of "+child.ThreadID)
		}
		suite.Equal(e, "steered", suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 2)))(e).Steered, 3)
		for _, child := range turns {
			n := 0
			for _, m := range e.Messages(t.ThreadID) {
				if m.Role == agent.RoleUser && m.Source == "agent:"+child.ThreadID {
					n++
				}
			}
			if n > 1 {
				e.Errorf("the end of %s stands in the thread %d times", child.ThreadID, n)
			}
			suite.Equal(e, "entry", e.Entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryTaken)
		}
	}},
}

var resumeRules = []suite.Rule{
	{Name: "a resume is a new turn and task of the same thread", Turn: func(e *suite.Env, t memory.Turn) {
		first := e.ChildDone(t, 1)
		c := e.Assigns(t, 2, 1)[0]
		d := e.Open(suite.Resume(c, first.ChildThread))
		suite.Equals(e, "refused", d.Refused, false, "thread", d.ChildThread, first.ChildThread)
		if d.ChildTurn == first.ChildTurn || d.TaskID == first.TaskID {
			e.Fatalf("turn or task is the first one's: %+v", d)
		}
		e.Unchanged(t.ThreadID, func() { suite.Equal(e, "repeated", e.Open(suite.Resume(c, first.ChildThread)), d) })
		suite.Equal(e, "children", len(e.Children(t.ThreadID)), 1)
		th := e.Thread(d.ChildThread)
		suite.Equals(e, "created by", th.ParentToolCallID, agent.CallID(t.ID, 1, 0), "latest task", th.TaskID, d.TaskID)
		child := e.Take(d.ChildThread)
		suite.Equal(e, "turn", child.ID, d.ChildTurn)
		ms := e.Messages(d.ChildThread)
		suite.Equal(e, "history first", []string{ms[0].Content.String(), ms[1].Content.String(), ms[2].Content.String()}, []string{"find out", "the finding", "go on"})
		e.Answer(child, 1, "more")
		suite.Equal(e, "done", e.TakeResult(c).Done, true)
		suite.Contains(e, "result", e.Call(c.ID).Result, "more")
		suite.Equal(e, "event links", e.EventsOf(t.ThreadID, agent.EventToolCall)[1]["sub_agent_thread_id"], any(d.ChildThread))
		e.SaveRound(t, 2)
	}},
	{Name: "an agent id names the thread as well as its full id", Turn: func(e *suite.Env, t memory.Turn) {
		first := e.ChildDone(t, 1)
		parsed, err := agent.ParseThreadID(first.ChildThread)
		e.Ok(err)
		d := e.Open(suite.Resume(e.Assigns(t, 2, 1)[0], parsed.AgentID))
		suite.Equal(e, "thread", d.ChildThread, first.ChildThread)
	}},
	{Name: "a sub-agent that failed or was cancelled can be resumed", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Delegate(t, 1, "researcher")
		e.Close(suite.Failed(e.Take(d.ChildThread), 1, agent.ReasonTerminated))
		e.Taken(t, 1)
		e.Open(suite.Resume(e.Assigns(t, 2, 1)[0], d.ChildThread))
		e.Close(suite.Cancelled(e.Take(d.ChildThread), 1))
		e.Taken(t, 2)
		e.Open(suite.Resume(e.Assigns(t, 3, 1)[0], d.ChildThread))
		e.Answer(e.Take(d.ChildThread), 1, "at last")
		suite.Equals(e, "done", e.TakeResult(e.FirstCall(t, 3)).Done, true, "status", e.Thread(d.ChildThread).Status, agent.ThreadCompleted)
		e.SaveRound(t, 3)
	}},
	{Name: "a later turn of the same parent can resume", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.ChildDone(t, 1)
		e.Answer(t, 2, "done")
		e.Send("s1", "m2")
		second := e.Take(t.ThreadID)
		suite.Equal(e, "thread", e.Open(suite.Resume(e.Assigns(second, 1, 1)[0], d.ChildThread)).ChildThread, d.ChildThread)
		child := e.Take(d.ChildThread)
		suite.Equal(e, "delegator turn", child.DelegatorTurn, second.ID)
	}},
	{Name: "two resumes at once are serialised and lose nothing", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.ChildDone(t, 1)
		calls := e.Assigns(t, 2, 2)
		for _, c := range calls {
			suite.Equal(e, "refused", e.Open(suite.Resume(c, d.ChildThread)).Refused, false)
		}
		child := e.Take(d.ChildThread)
		suite.Equals(e, "first", child.DelegatorCall, calls[0].ID, "needs start", e.TakeResult(calls[1]).NeedsStart, false)
		closed := e.Answer(child, 1, "one")
		suite.Equals(e, "starts the next run", closed.Waiting, t.ThreadID, "claimed", closed.Next, "", "done", e.TakeResult(calls[0]).Done, true)
		suite.Equal(e, "needs start", e.TakeResult(calls[1]).NeedsStart, true)
		second := e.Take(d.ChildThread)
		suite.Equal(e, "second", second.DelegatorCall, calls[1].ID)
		e.Answer(second, 1, "two")
		suite.Equal(e, "done", e.TakeResult(calls[1]).Done, true)
		suite.Contains(e, "result", e.Call(calls[0].ID).Result, "one")
		suite.Contains(e, "result", e.Call(calls[1].ID).Result, "two")
		e.SaveRound(t, 2)
	}},
	{Name: "an unknown sub-agent is refused", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Assigns(t, 1, 2)
		e.Refused(suite.Resume(calls[0], "agent:researcher:none"))
		e.Refused(suite.Resume(calls[1], "researcher-1-000000000000"))
	}},
	{Name: "a sub-agent of another parent, user or type is refused", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.ChildDone(t, 1)
		other := e.Started("s2")
		e.Refused(suite.Resume(e.Assigns(other, 1, 1)[0], d.ChildThread))
		r := suite.Message("s3", "m1", "hi")
		r.UserID = suite.OtherUser
		foreign := e.Take(suite.Must(e.S.Send(e.Ctx, r))(e).ThreadID)
		c := e.Assigns(foreign, 1, 1)[0]
		suite.Equal(e, "refused", e.Open(suite.Resume(c, d.ChildThread)).Refused, true)
		rt := suite.Resume(e.Assigns(t, 2, 1)[0], d.ChildThread)
		rt.Config.Name = "general"
		e.Refused(rt)
		suite.Equal(e, "its turns", len(suite.Must(e.S.TurnsOf(e.Ctx, d.ChildThread))(e)), 1)
	}},
}

package treecases

import (
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

// Where the end of a child in the background goes: to the next model call of a turn
// that is open, or it opens a turn.
type ending struct {
	name  string
	fails bool // the child's turn
	place func(e *suite.Env, t memory.Turn) (child, told memory.Turn)
	opens bool // a turn of the thread that is told
}

var endings = []ending{
	{name: "its end goes into a busy delegator's turn before the next model call, once", place: func(e *suite.Env, t memory.Turn) (child, told memory.Turn) {
		return e.Apart(t, 1), t
	}},
	{name: "its end opens a turn of an idle main delegator", opens: true, place: func(e *suite.Env, t memory.Turn) (child, told memory.Turn) {
		return e.Take(e.Away(t).ChildThread), t
	}},
	{name: "a background child that failed is reported too", opens: true, fails: true, place: func(e *suite.Env, t memory.Turn) (child, told memory.Turn) {
		return e.Take(e.Away(t).ChildThread), t
	}},
	{name: "its end under an idle sub-agent goes to the nearest ancestor with an open turn", place: func(e *suite.Env, t memory.Turn) (child, told memory.Turn) {
		return idleBetween(e, t), t
	}},
	{name: "its end goes to the root when no ancestor has an open turn", opens: true, place: func(e *suite.Env, t memory.Turn) (child, told memory.Turn) {
		child = idleBetween(e, t)
		e.Answer(t, 2, "done")
		return child, t
	}},
	{name: "its end goes to a sub-agent that delegated it and has an open turn", place: func(e *suite.Env, t memory.Turn) (child, told memory.Turn) {
		told = e.Child(t, 1)
		return e.Apart(told, 1), told
	}},
}

// idleBetween is a child in the background of a sub-agent that has ended.
func idleBetween(e *suite.Env, t memory.Turn) memory.Turn {
	child := e.Child(t, 1)
	grand := e.Apart(child, 1)
	e.Answer(child, 2, "I have a helper")
	e.Taken(t, 1)
	return grand
}

func endRules() (rules []suite.Rule) {
	for _, c := range endings {
		rules = append(rules, suite.Rule{Name: c.name, Turn: c.check})
	}
	return rules
}

func (c ending) check(e *suite.Env, t memory.Turn) {
	child, told := c.place(e, t)
	responses, before := len(e.EventsOf(told.ThreadID, agent.EventToolResponse)), len(e.Messages(told.ThreadID))
	task, end := agent.TaskFailed, suite.Failed(child, 1, agent.ReasonTimeout)
	if !c.fails {
		task, end = agent.TaskSuccess, suite.Completed(child, 1)
		e.Reply(child, 1, "the finding")
	}
	suite.Equal(e, "notified", e.Close(end).Notify.ThreadID, told.ThreadID)
	parent := e.Thread(child.ThreadID).ParentThreadID
	suite.Equals(e, "task", e.Task(parent, child.TaskID).Status, task, "entry", e.Entry(told.ThreadID, memory.EntryChild, child.ID).State, memory.EntryWaiting)
	next, step, steered := told, 2, 1
	if c.opens {
		next, step, steered = e.Take(told.ThreadID), 1, 0
		suite.Equals(e, "kind", next.EntryKind, memory.EntryChild, "once", e.Take(told.ThreadID).ID, next.ID)
	}
	b := e.ModelBegin(next, step)
	suite.Equal(e, "steered", suite.Must(e.S.BeginModel(e.Ctx, b))(e).Steered, steered)
	suite.Equal(e, "entry", e.Entry(told.ThreadID, memory.EntryChild, child.ID).State, memory.EntryTaken)
	if !c.fails {
		suite.Contains(e, "message", e.Last(told.ThreadID), "the finding")
	}
	if parent != told.ThreadID {
		suite.Contains(e, "report", e.Last(told.ThreadID), "\nstarted by: "+e.Thread(parent).AgentID+"\n")
	}
	b.Fence.Number = 2
	st := suite.Must(e.S.BeginModel(e.Ctx, b))(e)
	suite.Equals(e, "messages", len(e.Messages(told.ThreadID)), before+1, "next", e.Answer2(next, step, st.Attempt, "the child says so").Next, "")
	suite.Equal(e, "responses", len(e.EventsOf(told.ThreadID, agent.EventToolResponse)), responses)
}

var backgroundRules = append(endRules(), []suite.Rule{
	{Name: "a background delegation has its result at once, and the turn can end before the child", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Background(t, 1, "researcher")
		suite.Equal(e, "call", e.FirstCall(t, 1).Status, agent.CallSuccess)
		e.SaveRound(t, 1)
		e.Answer(t, 2, "it is on its way")
		suite.Equals(e, "thread", e.Thread(t.ThreadID).Status, agent.ThreadCompleted, "task", e.Task(t.ThreadID, d.TaskID).Status, agent.TaskPending)
		child := e.Take(d.ChildThread)
		suite.Equals(e, "background", child.Background, true, "task", e.Task(t.ThreadID, d.TaskID).Status, agent.TaskRunning)
	}},
	{Name: "its end after the last model call is the delegator's next turn", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Apart(t, 1)
		e.Reply(t, 2, "it is on its way")
		e.Answer(child, 1, "the finding")
		next := e.Turn(e.Close(suite.Completed(t, 2)).Next)
		suite.Equal(e, "kind", next.EntryKind, memory.EntryChild)
		e.Answer(next, 1, "the child says so")
	}},
	{Name: "whoever is told of another's sub-agent is told who alone can resume it", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Apart(child, 1)
		great := e.Apart(grand, 1)
		e.Close(suite.Failed(great, 1, agent.ReasonError)) // grand is at work, but reads it no more
		e.Close(suite.Failed(grand, 2, agent.ReasonError)) // the same of child
		e.Close(suite.Failed(child, 2, agent.ReasonError))
		e.Taken(t, 1)
		suite.Equal(e, "told", e.Steered(t, 2), 2)
		id := func(turn memory.Turn) string { return e.Thread(turn.ThreadID).AgentID }
		text := map[string]string{}
		for _, m := range e.Messages(t.ThreadID) {
			text[m.Source] = m.Content.String()
		}
		suite.Contains(e, "of grand", text["agent:"+grand.ThreadID], "Only the agent that started it can resume it: to go on from there, resume "+id(child)+" and tell it to.")
		suite.Contains(e, "of great", text["agent:"+great.ThreadID], "resume "+id(child)+" and tell it to have "+id(grand)+" do that.")
	}},
	{Name: "an end that was read with task_output is reported in short", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Apart(t, 1)
		read := e.Reply(t, 2, "", agent.NewCall("x", agent.ToolTaskOutput, "{}")).Calls[0]
		e.Answer(child, 1, "the finding")
		const ended = "[Background agent general ended: success]"
		e.RunTool(read, strings.Replace(e.Entry(t.ThreadID, memory.EntryChild, child.ID).Content.String(), ended, "[Agent general: success]", 1))
		e.SaveRound(t, 2)
		suite.Equal(e, "told", e.Steered(t, 3), 1)
		suite.Contains(e, "report", e.Last(t.ThreadID), ended)
		suite.Contains(e, "report", e.Last(t.ThreadID), "You have read its result with task_output already.")
		suite.Equal(e, "the finding, again", strings.Contains(e.Last(t.ThreadID), "the finding"), false)
	}},
}...)

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
		e.Says(d.ChildThread, "user find out", "assistant the finding", "user go on")
		e.Answer(child, 1, "more")
		suite.Equal(e, "done", e.TakeResult(c).Done, true)
		suite.Contains(e, "result", e.Call(c.ID).Result, "more")
		suite.Equal(e, "event links", e.EventsOf(t.ThreadID, agent.EventToolCall)[1]["sub_agent_thread_id"], any(d.ChildThread))
		e.SaveRound(t, 2)
	}},
	{Name: "an agent id names the thread as well as its full id, also in a later turn of the same parent", Turn: func(e *suite.Env, t memory.Turn) {
		first := e.ChildDone(t, 1)
		e.Answer(t, 2, "done")
		e.Send("s1", "m2")
		second := e.Take(t.ThreadID)
		d := e.Open(suite.Resume(e.Assigns(second, 1, 1)[0], e.Thread(first.ChildThread).AgentID))
		suite.Equals(e, "thread", d.ChildThread, first.ChildThread, "delegator turn", e.Take(d.ChildThread).DelegatorTurn, second.ID)
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

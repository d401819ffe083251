package copycases

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var forkRules = []suite.Rule{
	{Name: "a fork copies a conversation with its sub-agents, and the original is untouched", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		e.H.Clock.Advance(time.Hour)
		f := e.Fork(root, "", "f1")
		suite.Equals(e, "messages", f.Messages, int64(len(e.Messages(root))), "sub-agents", len(f.SubAgents), 2, "cut", len(f.Cut), 0)
		old, th := e.Thread(root), e.Thread(f.ThreadID)
		suite.Equal(e, "place", [4]any{th.SessionID, th.RootThreadID, th.UserID, th.Status}, [4]any{"s1", f.ThreadID, suite.User, agent.ThreadCompleted})
		suite.Equals(e, "metadata", th.Metadata, old.Metadata, "created", th.CreatedAt, e.H.Clock.Now())
		suite.Equal(e, "spent", suite.Must(e.S.Spent(e.Ctx, f.ThreadID))(e), memory.Spent{})
		child, oldChild := e.Children(f.ThreadID)[0], e.Children(root)[0]
		suite.Equal(e, "pair", f.SubAgents[0], memory.ForkedThread{ThreadID: child.ID, FromThread: oldChild.ID})
		suite.Equal(e, "child", [3]any{child.Metadata, child.CreatedAt, child.Summary}, [3]any{oldChild.Metadata, oldChild.CreatedAt, oldChild.Summary})
		if th.ID == old.ID || child.ID == oldChild.ID {
			e.Fatalf("the copy has the ids of the original")
		}
		made := e.Call(child.ParentToolCallID)
		// What the model was told names the copy.
		suite.Contains(e, "result", made.Result, child.AgentID)
		second := e.Fork(f.ThreadID, e.Messages(f.ThreadID)[2].ID, "f1")
		e.GoesOn(second.ThreadID, "m2")
		e.GoesOn(f.ThreadID, "m2")
	}},
	{Name: "a fork at any message ends with the save point that wrote it, and goes on from there", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		e.Send("s1", "m2")
		second := e.Take(root)
		e.Answer(second, 1, "again")
		for i, m := range e.Messages(root) {
			f := e.Fork(root, m.ID, "f"+m.ID)
			copied := e.Messages(f.ThreadID)
			last := copied[len(copied)-1]
			if f.Messages < m.Seq || m.Role == agent.RoleUser && f.Messages != m.Seq {
				e.Fatalf("a fork at message %d (%s) has %d messages", m.Seq, m.Role, f.Messages)
			}
			th := e.Thread(f.ThreadID)
			whole := last.Role == agent.RoleAssistant && len(last.ToolCalls) == 0
			suite.Equals(e, "cut", len(f.Cut) == 0, whole, "status", th.Status == agent.ThreadCompleted, whole)
			again := suite.Must(e.S.Fork(e.Ctx, suite.ForkRequest(root, m.ID, "f"+m.ID)))(e)
			f.Repeated = true
			suite.Equal(e, "repeated", again, f)
			o := e.Elsewhere()
			e.Archived(f.ThreadID, o)
			if i%2 == 0 {
				e.GoesOn(f.ThreadID, "more")
				continue
			}
			// A retry answers the message that was cut off, without asking twice.
			r := e.Retry(f.ThreadID, "r1")
			t := e.Take(f.ThreadID)
			suite.Equal(e, "turn", t.ID, r.TurnID)
			e.Answer(t, 1, "another answer")
			suite.Equal(e, "users", count(e.Messages(f.ThreadID), agent.RoleUser), count(copied, agent.RoleUser))
			e.Sound(f.ThreadID)
		}
	}},
	{Name: "a request is repeated without a second copy, and is refused with other content", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		f := e.Fork(root, "", "f1")
		e.Send("s1", "m2")
		e.Answer(e.Take(root), 1, "later")
		e.GoesOn(f.ThreadID, "x1")
		before := len(e.Threads(memory.ThreadFilter{All: true}))
		again := suite.Must(e.S.Fork(e.Ctx, suite.ForkRequest(root, "", "f1")))(e)
		f.Repeated = true
		suite.Equal(e, "again", again, f)
		suite.Fails(e.S.Fork(e.Ctx, suite.ForkRequest(root, e.Messages(root)[0].ID, "f1")))(e, agent.CodeConflict)
		suite.Equal(e, "threads", len(e.Threads(memory.ThreadFilter{All: true})), before)
		named := suite.ForkRequest(root, "", "f2")
		named.ConversationID = "what-if"
		suite.Equal(e, "named", suite.Must(e.S.Fork(e.Ctx, named))(e).ThreadID, "s1/what-if")
		named.ConversationID = agent.DefaultConversation
		suite.Fails(e.S.Fork(e.Ctx, named))(e, agent.CodeConflict)
		if other := e.Fork(root, "", "f3"); other.ThreadID == f.ThreadID {
			e.Fatalf("two requests made one fork")
		}
	}},
	{Name: "the sender's id of a message names it too; what is not there, not the user's or no conversation is refused", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		suite.Equal(e, "messages", e.Fork(root, "m1", "f1").Messages, int64(1))
		e.Send("s1", "m2") // waits
		child := e.Children(root)[0].ID
		empty := suite.Must(e.S.Send(e.Ctx, suite.Message("s2", "m1", "waits")))(e).ThreadID
		other, slash := suite.ForkRequest(root, "", "f2"), suite.ForkRequest(root, "", "f2")
		other.UserID, slash.ConversationID = suite.OtherUser, "no/name"
		for _, c := range []struct {
			r    memory.ForkRequest
			code agent.Code
		}{
			{suite.ForkRequest(root, "m2", "f2"), agent.CodeNotFound},
			{suite.ForkRequest(root, "nothing", "f2"), agent.CodeNotFound},
			{suite.ForkRequest(root, e.Messages(child)[0].ID, "f2"), agent.CodeNotFound},
			{suite.ForkRequest(empty, "", "f2"), agent.CodeConflict},
			{suite.ForkRequest(child, "", "f2"), agent.CodeInvalid},
			{suite.ForkRequest(root, "", ""), agent.CodeInvalid},
			{other, agent.CodeNotFound},
			{slash, agent.CodeInvalid},
		} {
			suite.Fails(e.S.Fork(e.Ctx, c.r))(e, c.code)
		}
		suite.Equal(e, "threads", len(e.Threads(memory.ThreadFilter{})), 3)
	}},
	{Name: "a thread that works is forked up to what is saved", Turn: func(e *suite.Env, t memory.Turn) {
		for _, c := range e.Calls(t, 1, 2) {
			e.RunTool(c, "found")
		}
		e.SaveRound(t, 1)
		running := e.Calls(t, 2, 2)
		e.RunTool(running[0], "found too")
		child := e.Take(e.Delegate(e.Started("s2"), 1, "researcher").ChildThread)
		e.Begin(child, 1)
		e.Send("s1", "m2")
		f := e.Fork(t.ThreadID, "", "f1")
		suite.Equal(e, "copied", [3]any{f.Messages, f.Cut, len(f.SubAgents)}, [3]any{int64(4), []string{f.ThreadID}, 0})
		suite.Equal(e, "calls", len(suite.Must(e.S.ToolCalls(e.Ctx, f.ThreadID))(e)), 2)
		th := e.Thread(f.ThreadID)
		suite.Equal(e, "counted", [4]any{th.Status, th.RequestCount, th.TotalTokens, th.ToolCallCount}, [4]any{agent.ThreadCancelled, int64(1), int64(15), int64(2)})
		e.GoesOn(f.ThreadID, "m2")
		f = e.Fork(e.Thread(child.ThreadID).RootThreadID, "", "f1")
		suite.Equal(e, "without the child", [2]any{f.Messages, len(f.SubAgents)}, [2]any{int64(1), 0})
		// The original works on as if nothing had been.
		e.RunTool(running[1], "found last")
		e.SaveRound(t, 2)
		e.Answer(t, 3, "done")
	}},
	{Name: "a sub-agent that works in the background ends in the copy with what it has saved, and can be resumed there", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Away(t)
		child := e.Take(d.ChildThread)
		e.Step(child, 1, "found")
		e.Gated(child, 2, agent.GateAsk)
		e.Ask(child, 2)
		f := e.Fork(t.ThreadID, "", "f1")
		suite.Equal(e, "cut", len(f.Cut), 1)
		copied := e.Children(f.ThreadID)[0]
		suite.Equal(e, "copy", [4]any{copied.ID, copied.Status, copied.MessageCount, copied.ToolCallCount}, [4]any{f.SubAgents[0].ThreadID, agent.ThreadCancelled, int64(3), int64(1)})
		suite.Equal(e, "approvals", len(e.Approvals(memory.ApprovalFilter{RootThread: f.ThreadID, OpenOnly: true})), 0)
		suite.Equal(e, "asked and settled", len(e.EventsOf(f.ThreadID, agent.EventApprovalRequired)), len(e.EventsOf(f.ThreadID, agent.EventApprovalResponse)))
		suite.Equal(e, "told", len(e.EventsOf(f.ThreadID, agent.EventSubAgentCompleted)), 1)
		// The copy is resumed by the copy of its parent, the original by its own.
		r := memory.SendRequest{UserID: suite.User, ThreadID: f.ThreadID, MessageID: "m2", Content: agent.Text("go on"), WhenBusy: memory.Queue}
		_ = suite.Must(e.S.Send(e.Ctx, r))(e)
		second := e.Take(f.ThreadID)
		ms := e.Messages(f.ThreadID)
		suite.Contains(e, "told with the message, once", ms[len(ms)-2].Content.String(), copied.ID)
		calls := e.Assigns(second, 1, 2)
		e.Refused(suite.Resume(calls[0], d.ChildThread))
		suite.Equal(e, "refused", e.Open(suite.Resume(calls[1], copied.AgentID)).Refused, false)
		e.Answer(e.Take(copied.ID), 1, "the finding")
		e.TakeResult(calls[1])
		e.SaveRound(second, 1)
		e.Answer(second, 2, "all done")
		e.Sound(f.ThreadID)
		e.Decide(suite.Decision(e.Approvals(memory.ApprovalFilter{RootThread: t.ThreadID, OpenOnly: true})[0].ID, memory.Approve))
		e.RunTool(e.FirstCall(child, 2), "written")
		e.SaveRound(child, 2)
		e.Answer(child, 3, "the original's finding")
		e.Answer(e.Take(t.ThreadID), 1, "reported")
	}},
	{Name: "a question that is open stays so in the original only", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Apart(t, 1)
		e.Step(child, 1, "found")
		open := e.Questioned(child, 2, "how many?")[0]
		e.Answer(t, 2, "it is on its way")
		f := e.Fork(t.ThreadID, "", "f1")
		suite.Equal(e, "questions", len(e.Questions(memory.QuestionFilter{RootThread: f.ThreadID})), 0)
		e.Archived(f.ThreadID, e.Elsewhere())
		e.GoesOn(f.ThreadID, "m2")
		e.AnswerTo(open.ID, "three")
	}},
	{Name: "summaries are copied with the steps that they were made for", Turn: func(e *suite.Env, t memory.Turn) {
		e.FullRound(t, 1, 2)
		e.Summarise(t, 2, 1, 4, "what was said")
		e.FullRound(t, 2, 1)
		at := e.Messages(t.ThreadID)
		cut := e.Fork(t.ThreadID, at[len(at)-1].ID, "f1")
		suite.Equal(e, "cut", e.Thread(cut.ThreadID).Compactions, int64(1))
		e.Answer(t, 3, "done")
		f := e.Fork(t.ThreadID, "", "f2")
		th := e.Thread(f.ThreadID)
		suite.Equal(e, "summarizedFrom", th.SummarizedFrom, agent.MessageRange(f.ThreadID, 1, 4))
		suite.Equal(e, "tokens", th.TotalTokens, e.Thread(t.ThreadID).TotalTokens)
		suite.Equal(e, "before it", e.Thread(e.Fork(t.ThreadID, at[3].ID, "f3").ThreadID).Compactions, int64(0))
		e.Archived(f.ThreadID, e.Elsewhere())
		e.GoesOn(f.ThreadID, "m2")
	}},
	{Name: "work in the background that had not begun is cancelled in the copy", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Background(t, 1, "researcher")
		e.SaveRound(t, 1)
		at := e.Messages(t.ThreadID)[2].ID
		e.H.Clock.Advance(time.Second)
		for range 2 { // as it waits, and after it has ended
			f := e.Fork(t.ThreadID, at, "f"+string(e.Thread(d.ChildThread).Status))
			copied := e.Children(f.ThreadID)[0]
			suite.Equal(e, "copy", [3]any{copied.Status, copied.MessageCount, len(f.Cut)}, [3]any{agent.ThreadCancelled, int64(0), 2})
			e.GoesOn(f.ThreadID, "m2")
			if e.Thread(d.ChildThread).Status == agent.ThreadPending {
				e.Answer(e.Take(d.ChildThread), 1, "the finding")
			}
		}
		// At the end of the conversation its end is there, though not told yet.
		f := e.Fork(t.ThreadID, e.Messages(t.ThreadID)[0].ID, "f1")
		suite.Equal(e, "before it was made", len(f.SubAgents), 0)
	}},
	{Name: "what a sub-agent did after that message is not in the copy", Turn: func(e *suite.Env, t memory.Turn) {
		first := e.ChildDone(t, 1)
		e.H.Clock.Advance(time.Second)
		c := e.Assigns(t, 2, 1)[0]
		e.Open(suite.Resume(c, first.ChildThread))
		e.Answer(e.Take(first.ChildThread), 1, "more")
		e.TakeResult(c)
		e.SaveRound(t, 2)
		e.Answer(t, 3, "done")
		f := e.Fork(t.ThreadID, e.Messages(t.ThreadID)[1].ID, "f1")
		suite.Equal(e, "messages", [2]int{len(e.Messages(f.SubAgents[0].ThreadID)), len(e.Messages(first.ChildThread))}, [2]int{2, 4})
		suite.Equal(e, "resumed too", len(e.Messages(e.Fork(t.ThreadID, "", "f2").SubAgents[0].ThreadID)), 4)
	}},
	{Name: "an end that was told to an ancestor, and a message taken into a running turn, are copied with who took them", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		below := e.Background(child, 1, "writer")
		e.SaveRound(child, 1)
		e.Answer(child, 2, "delegated")
		e.Taken(t, 1)
		e.Answer(e.Take(below.ChildThread), 1, "a page")
		e.Steer("s1", "steered")
		e.Calls(t, 2, 1)
		at := e.Messages(t.ThreadID)
		f := e.Fork(t.ThreadID, at[len(at)-1].ID, "f1")
		suite.Equal(e, "copied", [2]any{f.Messages, len(f.SubAgents)}, [2]any{int64(len(at)), 2})
		suite.Equal(e, "cut", f.Cut, []string{f.ThreadID})
		f = e.Fork(t.ThreadID, at[1].ID, "f2")
		suite.Equal(e, "writer", e.Children(f.SubAgents[0].ThreadID)[0].MessageCount, int64(2))
	}},
}

func count(messages []agent.Message, role agent.Role) (n int) {
	for _, m := range messages {
		if m.Role == role {
			n++
		}
	}
	return n
}

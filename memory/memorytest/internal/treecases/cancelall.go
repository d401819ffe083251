package treecases

import (
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var cancelAllRules = []suite.Rule{
	{Name: "with all, the end of a background grandchild is quiet though it lands on a foreground child at work", Run: func(e *suite.Env) {
		for i, done := range []bool{false, true} {
			t := e.Started(fmt.Sprint("s", i))
			child := e.Take(e.Delegate(t, 1, "researcher").ChildThread)
			grand := e.Take(e.Background(child, 1, "general").ChildThread)
			e.SaveRound(child, 1)
			e.Reply(grand, 1, "the finding")
			e.AllOf(t)
			if done { // before it heard of the request
				e.Close(suite.Completed(grand, 1))
			} else {
				e.Close(suite.Cancelled(grand, 1))
			}
			c := e.Close(suite.Cancelled(t, 1))
			suite.Equal(e, "next", c.Next, "")
			suite.Equal(e, "child", e.Turn(child.ID).Outcome, agent.ThreadCancelled)
			e.QuietAfter(t, 1)
		}
	}},
	{Name: "with all, an end that a foreground child has not read yet opens no turn of the root", Run: func(e *suite.Env) {
		t := e.Started("s1")
		child := e.Take(e.Delegate(t, 1, "researcher").ChildThread)
		grand := e.Take(e.Background(child, 1, "general").ChildThread)
		e.SaveRound(child, 1)
		e.Answer(grand, 1, "the finding")
		e.AllOf(t)
		suite.Equal(e, "next", e.Close(suite.Cancelled(t, 1)).Next, "")
		e.QuietAfter(t, 1)
	}},
	{Name: "a stopped child that ends while the next message is answered is told before the next model call, or stays quiet", Run: func(e *suite.Env) {
		t := e.Started("s1")
		var children []memory.Turn
		for step := 1; step <= 2; step++ {
			children = append(children, e.Take(e.Background(t, step, "general").ChildThread))
			e.SaveRound(t, step)
		}
		e.AllOf(t)
		e.Close(suite.Cancelled(t, 3))
		next := e.Take(e.Send("s1", "m2").ThreadID)
		e.Calls(next, 1, 1)
		e.RunTool(e.FirstCall(next, 1), "ran")
		e.SaveRound(next, 1)
		e.Close(suite.Cancelled(children[0], 1))
		start := suite.Must[memory.ModelStart](e)(e.S.BeginModel(e.Ctx, e.ModelBegin(next, 2)))
		suite.Equal(e, "told", start.Steered, 1)
		e.Close(suite.Cancelled(children[1], 1))
		suite.Equal(e, "next", e.Answer2(next, 2, start.Attempt, "fine").Next, "")
		e.QuietAfter(t, 1)
	}},
	{Name: "nothing is delegated below a turn that is to be cancelled", Run: func(e *suite.Env) {
		t := e.Started("s1")
		child := e.Take(e.Delegate(t, 1, "researcher").ChildThread)
		r := suite.Delegation(e.Assigns(child, 1, 1)[0], "general")
		r.Background = true
		e.AllOf(t)
		_, err := e.S.OpenDelegation(e.Ctx, r)
		e.IsCancel(err)
		e.Close(suite.Cancelled(t, 1))
		suite.Equal(e, "sub-agents", len(suite.Must[[]agent.Thread](e)(e.S.Children(e.Ctx, child.ThreadID))), 0)
		e.Sound(t.ThreadID)
	}},
}

var usageRules = []suite.Rule{
	{Name: "what children used is in the totals of all above them as soon as they end, once", Run: func(e *suite.Env) {
		t := e.Started("s1")
		child := e.Take(e.Delegate(t, 1, "researcher").ChildThread)
		grand := e.Take(e.Background(child, 1, "general").ChildThread)
		e.SaveRound(child, 1)
		late := e.Take(e.Background(child, 2, "general").ChildThread)
		e.SaveRound(child, 2)
		total := func(th string) int64 { return e.Thread(th).TotalTokens }
		one := suite.Usage().TotalTokens
		before := total(child.ThreadID)
		e.Answer(grand, 1, "the finding")
		suite.Equal(e, "the child's, before it reads the end", total(child.ThreadID)-before, one)
		e.Answer(child, 3, "I have a helper")
		root := total(t.ThreadID)
		suite.Equal(e, "the root's, before it takes the result", root, total(child.ThreadID)+one)
		e.TakeResult(e.FirstCall(t, 1))
		e.SaveRound(t, 1)
		e.Answer(t, 2, "done")
		suite.Equal(e, "taken", total(t.ThreadID), root+one)
		before = total(child.ThreadID)
		e.Answer(late, 1, "a late finding")
		suite.Equal(e, "the child's, which is idle", total(child.ThreadID)-before, one)
		suite.Equal(e, "the root's, which is idle", total(t.ThreadID), root+2*one)
		next := e.Take(t.ThreadID)
		suite.Equal(e, "the turn that tells it", next.Usage.TotalTokens, int64(0))
		e.Answer(next, 1, "the child says so")
		suite.Equal(e, "told", total(t.ThreadID), root+3*one)
		e.Sound(t.ThreadID)
	}},
	{Name: "with all, what the stopped children used is in the totals before anybody writes again", Run: func(e *suite.Env) {
		t := e.Started("s1")
		child := e.Take(e.Background(t, 1, "researcher").ChildThread)
		e.SaveRound(t, 1)
		e.Answer(t, 2, "on its way")
		e.Calls(child, 1, 1)
		before := e.Thread(t.ThreadID).TotalTokens
		e.RequestCancel(memory.CancelRequest{UserID: suite.User, ThreadID: t.ThreadID, By: "alice", All: true})
		e.Close(suite.Cancelled(child, 1))
		suite.Equal(e, "total", e.Thread(t.ThreadID).TotalTokens-before, suite.Usage().TotalTokens)
		e.QuietAfter(t, 1)
	}},
}

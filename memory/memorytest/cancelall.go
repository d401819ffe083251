package memorytest

import (
	"fmt"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// allOf cancels a thread's turn with everything below it.
func (e *env) allOf(t memory.Turn) memory.CancelResult {
	e.Helper()
	r := cancelOf(t)
	r.All = true
	return e.requestCancel(r)
}

// quietAfter checks that nothing opens a turn of a thread until somebody writes,
// and that the next turn tells the ends of so many children.
func (e *env) quietAfter(t memory.Turn, ends int) {
	e.Helper()
	e.h.Clock.Advance(time.Minute)
	_, due := e.overdue(time.Second)[t.ThreadID]
	equal(e, "overdue", due, false)
	claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID}))
	equal(e, "nothing to take", claim.Turn == nil, true)
	before := len(e.messages(t.ThreadID))
	next := e.take(e.send(e.thread(t.ThreadID).SessionID, "after").ThreadID)
	equal(e, "ends and the message", len(e.messages(t.ThreadID))-before, ends+1)
	equal(e, "the message is charged with nothing else", next.Usage, agent.Usage{})
	e.answer(next, 1, "fine")
	e.sound(t.ThreadID)
}

var cancelAllRules = []rule{
	{"with all, the end of a background grandchild is quiet though it lands on a foreground child at work", func(e *env) {
		for i, done := range []bool{false, true} {
			t := e.started(fmt.Sprint("s", i))
			child := e.take(e.delegate(t, 1, "researcher").ChildThread)
			grand := e.take(e.background(child, 1, "general").ChildThread)
			e.saveRound(child, 1)
			e.reply(grand, 1, "the finding")
			e.allOf(t)
			if done { // before it heard of the request
				e.close(completed(grand, 1))
			} else {
				e.close(cancelled(grand, 1))
			}
			c := e.close(cancelled(t, 1))
			equal(e, "next", c.Next, "")
			equal(e, "child", e.turn(child.ID).Outcome, agent.ThreadCancelled)
			e.quietAfter(t, 1)
		}
	}},
	{"with all, an end that a foreground child has not read yet opens no turn of the root", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.take(e.background(child, 1, "general").ChildThread)
		e.saveRound(child, 1)
		e.answer(grand, 1, "the finding")
		e.allOf(t)
		equal(e, "next", e.close(cancelled(t, 1)).Next, "")
		e.quietAfter(t, 1)
	}},
	{"a stopped child that ends while the next message is answered is told before the next model call, or stays quiet", func(e *env) {
		t := e.started("s1")
		var children []memory.Turn
		for step := 1; step <= 2; step++ {
			children = append(children, e.take(e.background(t, step, "general").ChildThread))
			e.saveRound(t, step)
		}
		e.allOf(t)
		e.close(cancelled(t, 3))
		next := e.take(e.send("s1", "m2").ThreadID)
		e.calls(next, 1, 1)
		e.runTool(e.firstCall(next, 1), "ran")
		e.saveRound(next, 1)
		e.close(cancelled(children[0], 1))
		start := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(next, 2)))
		equal(e, "told", start.Steered, 1)
		e.close(cancelled(children[1], 1))
		equal(e, "next", e.answer2(next, 2, start.Attempt, "fine").Next, "")
		e.quietAfter(t, 1)
	}},
	{"nothing is delegated below a turn that is to be cancelled", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		r := delegation(e.assigns(child, 1, 1)[0], "general")
		r.Background = true
		e.allOf(t)
		_, err := e.s.OpenDelegation(e.ctx, r)
		e.isCancel(err)
		e.close(cancelled(t, 1))
		equal(e, "sub-agents", len(must[[]agent.Thread](e)(e.s.Children(e.ctx, child.ThreadID))), 0)
		e.sound(t.ThreadID)
	}},
}

var usageRules = []rule{
	{"what children used is in the totals of all above them as soon as they end, once", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.take(e.background(child, 1, "general").ChildThread)
		e.saveRound(child, 1)
		late := e.take(e.background(child, 2, "general").ChildThread)
		e.saveRound(child, 2)
		total := func(th string) int64 { return e.thread(th).TotalTokens }
		one := usage().TotalTokens
		before := total(child.ThreadID)
		e.answer(grand, 1, "the finding")
		equal(e, "the child's, before it reads the end", total(child.ThreadID)-before, one)
		e.answer(child, 3, "I have a helper")
		root := total(t.ThreadID)
		equal(e, "the root's, before it takes the result", root, total(child.ThreadID)+one)
		e.takeResult(e.firstCall(t, 1))
		e.saveRound(t, 1)
		e.answer(t, 2, "done")
		equal(e, "taken", total(t.ThreadID), root+one)
		before = total(child.ThreadID)
		e.answer(late, 1, "a late finding")
		equal(e, "the child's, which is idle", total(child.ThreadID)-before, one)
		equal(e, "the root's, which is idle", total(t.ThreadID), root+2*one)
		next := e.take(t.ThreadID)
		equal(e, "the turn that tells it", next.Usage.TotalTokens, int64(0))
		e.answer(next, 1, "the child says so")
		equal(e, "told", total(t.ThreadID), root+3*one)
		e.sound(t.ThreadID)
	}},
	{"with all, what the stopped children used is in the totals before anybody writes again", func(e *env) {
		t := e.started("s1")
		child := e.take(e.background(t, 1, "researcher").ChildThread)
		e.saveRound(t, 1)
		e.answer(t, 2, "on its way")
		e.calls(child, 1, 1)
		before := e.thread(t.ThreadID).TotalTokens
		e.requestCancel(memory.CancelRequest{UserID: user, ThreadID: t.ThreadID, By: "alice", All: true})
		e.close(cancelled(child, 1))
		equal(e, "total", e.thread(t.ThreadID).TotalTokens-before, usage().TotalTokens)
		e.quietAfter(t, 1)
	}},
}

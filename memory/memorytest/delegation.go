package memorytest

import (
	"fmt"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func assign(n int) agent.Call {
	return agent.NewCall("provider-1", "assign_task", fmt.Sprintf(`{"agent":"researcher","task":"t%d"}`, n))
}

// limits are wide enough not to matter.
var limits = memory.DelegationLimits{MaxDepth: 3, MaxFanOut: 8, MaxDescendants: 100}

func delegation(c agent.ToolCall, agentType string) memory.DelegationRequest {
	return memory.DelegationRequest{
		ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Task: "find out", Description: "research", Limits: limits,
		Config: agent.SpecialistAgentConfig{Name: agentType, SystemPrompt: "You research.", Tools: []string{"lookup"}},
	}
}

func (e *env) open(r memory.DelegationRequest) memory.Delegation {
	e.Helper()
	return must[memory.Delegation](e)(e.s.OpenDelegation(e.ctx, r))
}

// assigns opens a step with n calls of assign_task.
func (e *env) assigns(t memory.Turn, step, n int) []agent.ToolCall {
	e.Helper()
	var list []agent.Call
	for i := range n {
		list = append(list, assign(i))
	}
	return e.reply(t, step, "", list...).Calls
}

// delegate opens a step whose one call is delegated in the foreground.
func (e *env) delegate(t memory.Turn, step int, agentType string) memory.Delegation {
	e.Helper()
	d := e.open(delegation(e.assigns(t, step, 1)[0], agentType))
	if d.Refused {
		e.Fatalf("refused: %s", d.Refusal)
	}
	return d
}

func childResult(c agent.ToolCall) memory.ChildResultRequest {
	return memory.ChildResultRequest{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID}
}

func (e *env) takeResult(c agent.ToolCall) memory.ChildResult {
	e.Helper()
	return must[memory.ChildResult](e)(e.s.TakeChildResult(e.ctx, childResult(c)))
}

func (e *env) task(threadID, taskID string) agent.Task {
	e.Helper()
	for _, k := range must[[]agent.Task](e)(e.s.Tasks(e.ctx, threadID)) {
		if k.ID == taskID {
			return k
		}
	}
	e.Fatalf("no task %s in %s", taskID, threadID)
	return agent.Task{}
}

func (e *env) children(threadID string) []agent.Thread {
	e.Helper()
	return must[[]agent.Thread](e)(e.s.Children(e.ctx, threadID))
}

// firstCall is the first call of a step.
func (e *env) firstCall(t memory.Turn, step int) agent.ToolCall {
	e.Helper()
	return e.call(agent.CallID(t.ID, step, 0))
}

// refused checks that a delegation is refused as a result and makes nothing.
func (e *env) refused(r memory.DelegationRequest) {
	e.Helper()
	children := len(e.children(r.ThreadID))
	d := e.open(r)
	equal(e, "refused", d.Refused, true)
	c := e.call(r.CallID)
	equal(e, "status", c.Status, agent.CallFailed)
	if c.Result == "" || d.Refusal != c.Result {
		e.Errorf("the refusal %q is not the result %q", d.Refusal, c.Result)
	}
	equal(e, "children", len(e.children(r.ThreadID)), children)
	root := e.thread(r.ThreadID).RootThreadID
	e.unchanged(root, func() { equal(e, "repeated", e.open(r).Refused, true) })
}

var delegationRules = []rule{
	{"a delegation makes thread, task, linked event and entry in one write", func(e *env) {
		t := e.started("s1")
		c := e.assigns(t, 1, 1)[0]
		d := e.open(delegation(c, "researcher"))
		parsed, err := agent.ParseThreadID(d.ChildThread)
		e.ok(err)
		equal(e, "type", parsed.AgentType, "researcher")
		equal(e, "agent id", parsed.AgentID, agent.NewAgentID("researcher", e.call(c.ID).CreatedAt, t.ThreadID, t.ID, c.ID))
		equal(e, "task", d.TaskID, agent.TaskID(c.ID))
		th := e.thread(d.ChildThread)
		equal(e, "kind and status", [2]string{string(th.Kind), string(th.Status)}, [2]string{"subagent", "pending"})
		equal(e, "links", [4]string{th.ParentThreadID, th.RootThreadID, th.ParentToolCallID, th.TaskID}, [4]string{t.ThreadID, t.ThreadID, c.ID, d.TaskID})
		equal(e, "owner, chat, depth", [3]any{th.UserID, th.ChatID, th.Depth}, [3]any{user, t.ThreadID, 1})
		equal(e, "config", th.Config.SystemPrompt, "You research.")
		equal(e, "workdir", th.Workdir, "/w")
		k := e.task(t.ThreadID, d.TaskID)
		equal(e, "task", [4]string{k.Type, k.Name, k.SubAgentID, string(k.Status)}, [4]string{"agent", "agent:researcher", d.ChildThread, "pending"})
		ev := e.eventsOf(t.ThreadID, agent.EventToolCall)
		equal(e, "events", len(ev), 1)
		equal(e, "link", [2]any{ev[0]["toolCallId"], ev[0]["sub_agent_thread_id"]}, [2]any{c.ID, d.ChildThread})
		got := e.call(c.ID)
		equal(e, "call", [3]string{string(got.Status), got.SubAgentThreadID, got.SubAgentID}, [3]string{"running", d.ChildThread, parsed.AgentID})
		in := e.inbox(d.ChildThread)
		equal(e, "entries", len(in), 1)
		equal(e, "entry", [4]string{string(in[0].Kind), in[0].TurnID, in[0].DelegatorThread, string(in[0].State)}, [4]string{"assign", d.ChildTurn, t.ThreadID, "waiting"})
		e.sound(t.ThreadID)
	}},
	{"a repeated delegation makes no second child", func(e *env) {
		t := e.started("s1")
		r := delegation(e.assigns(t, 1, 1)[0], "researcher")
		first := e.open(r)
		e.unchanged(t.ThreadID, func() { equal(e, "delegation", e.open(r), first) })
		e.take(first.ChildThread)
		e.unchanged(t.ThreadID, func() { equal(e, "delegation", e.open(r), first) })
	}},
	{"the child's answer becomes the result of the call, exactly once", func(e *env) {
		t := e.started("s1")
		d := e.delegate(t, 1, "researcher")
		c := e.firstCall(t, 1)
		equal(e, "before the start", e.takeResult(c), memory.ChildResult{NeedsStart: true, ChildThread: d.ChildThread})
		child := e.take(d.ChildThread)
		equal(e, "turn", child.ID, d.ChildTurn)
		equal(e, "delegator", [3]string{child.DelegatorThread, child.DelegatorTurn, child.DelegatorCall}, [3]string{t.ThreadID, t.ID, c.ID})
		equal(e, "task of the turn", child.TaskID, d.TaskID)
		equal(e, "while it runs", e.takeResult(c), memory.ChildResult{ChildThread: d.ChildThread})
		equal(e, "task", e.task(t.ThreadID, d.TaskID).Status, agent.TaskRunning)
		ms := e.messages(d.ChildThread)
		equal(e, "child's message", [2]string{string(ms[0].Role), ms[0].Content.String()}, [2]string{"user", "find out"})
		closed := e.answer(child, 1, "the finding")
		if closed.Notify == nil || closed.Notify.ThreadID != t.ThreadID {
			e.Fatalf("the close notifies %+v, want %s", closed.Notify, t.ThreadID)
		}
		equal(e, "entry", e.entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryWaiting)
		equal(e, "done", e.takeResult(c).Done, true)
		equal(e, "entry", e.entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryTaken)
		equal(e, "status", e.call(c.ID).Status, agent.CallSuccess)
		contains(e, "result", e.call(c.ID).Result, "the finding")
		e.unchanged(t.ThreadID, func() {
			equal(e, "done", e.takeResult(c).Done, true)
			e.close(completed(child, 1))
		})
		k := e.task(t.ThreadID, d.TaskID)
		equal(e, "task", k.Status, agent.TaskSuccess)
		contains(e, "task result", k.Result, "the finding")
		ev := e.eventsOf(t.ThreadID, agent.EventToolResponse)
		equal(e, "responses", len(ev), 1)
		equal(e, "link", ev[0]["sub_agent_thread_id"], any(d.ChildThread))
		equal(e, "child", e.thread(d.ChildThread).Status, agent.ThreadCompleted)
		e.saveRound(t, 1)
		e.answer(t, 2, "done")
		e.sound(t.ThreadID)
	}},
	{"a foreground child's end does not open a turn of its delegator", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		e.answer(child, 1, "the finding")
		equal(e, "steered", must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 1))).Steered, 0)
		equal(e, "entry", e.entry(t.ThreadID, memory.EntryChild, child.ID).State, memory.EntryWaiting)
		equal(e, "done", e.takeResult(e.firstCall(t, 1)).Done, true)
	}},
	{"a child that failed, timed out or was cancelled is told to its delegator as such", func(e *env) {
		for i, c := range []struct {
			close  func(memory.Turn, int) memory.CloseRequest
			thread agent.ThreadStatus
			task   agent.TaskStatus
		}{
			{func(t memory.Turn, n int) memory.CloseRequest { return failed(t, n, agent.ReasonError) }, agent.ThreadFailed, agent.TaskFailed},
			{func(t memory.Turn, n int) memory.CloseRequest { return failed(t, n, agent.ReasonTimeout) }, agent.ThreadFailed, agent.TaskFailed},
			{func(t memory.Turn, n int) memory.CloseRequest { return failed(t, n, agent.ReasonTerminated) }, agent.ThreadFailed, agent.TaskFailed},
			{cancelled, agent.ThreadCancelled, agent.TaskCancelled},
		} {
			t := e.started(fmt.Sprintf("s%d", i))
			d := e.delegate(t, 1, "researcher")
			child := e.take(d.ChildThread)
			e.close(c.close(child, 1))
			equal(e, "done", e.takeResult(e.firstCall(t, 1)).Done, true)
			got := e.firstCall(t, 1)
			if !got.Status.Final() || got.Status == agent.CallSuccess {
				e.Errorf("the call of a child that ended %s is %s", c.thread, got.Status)
			}
			equal(e, "thread", e.thread(d.ChildThread).Status, c.thread)
			equal(e, "task", e.task(t.ThreadID, d.TaskID).Status, c.task)
			e.saveRound(t, 1)
			e.answer(t, 2, "so be it")
			e.sound(t.ThreadID)
		}
	}},
	{"children of one reply, even of one type, are distinct and keep their results apart", func(e *env) {
		t := e.started("s1")
		calls := e.assigns(t, 1, 4)
		seen := map[string]bool{}
		turns := make([]memory.Turn, len(calls))
		for i, c := range calls {
			d := e.open(delegation(c, "researcher"))
			seen[d.ChildThread] = true
			turns[i] = e.take(d.ChildThread)
		}
		equal(e, "children", len(seen), len(calls))
		var wg sync.WaitGroup
		errs := make([]error, len(calls))
		for i, child := range turns {
			e.reply(child, 1, fmt.Sprintf("finding-%d", i))
			wg.Go(func() { _, errs[i] = e.s.CloseTurn(e.ctx, completed(child, 1)) })
		}
		wg.Wait()
		for i, c := range calls {
			e.ok(errs[i])
			equal(e, "done", e.takeResult(c).Done, true)
			contains(e, "result", e.call(c.ID).Result, fmt.Sprintf("finding-%d", i))
		}
		for i, th := range e.children(t.ThreadID) {
			equal(e, "order of creation", th.ParentToolCallID, calls[i].ID)
		}
		e.saveRound(t, 1)
		e.sound(t.ThreadID)
	}},
	{"a grandchild knows its root and its depth", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		grand := e.take(e.delegate(child, 1, "general").ChildThread)
		th := e.thread(grand.ThreadID)
		equal(e, "links", [3]any{th.ParentThreadID, th.RootThreadID, th.Depth}, [3]any{child.ThreadID, t.ThreadID, 2})
		tree := must[[]agent.Thread](e)(e.s.Threads(e.ctx, memory.ThreadFilter{Root: t.ThreadID, All: true, Limit: 10}))
		equal(e, "tree", len(tree), 3)
		e.answer(grand, 1, "deep")
		equal(e, "done", e.takeResult(e.firstCall(child, 1)).Done, true)
		e.saveRound(child, 1)
		e.answer(child, 2, "less deep")
		equal(e, "done", e.takeResult(e.firstCall(t, 1)).Done, true)
		e.saveRound(t, 1)
		e.sound(t.ThreadID)
	}},
	{"a sub-agent that shares its parent's context is given what was there when it was made, for good", func(e *env) {
		t := e.started("s1")
		e.runTool(e.calls(t, 1, 1)[0], "known")
		e.saveRound(t, 1)
		r := delegation(e.assigns(t, 2, 1)[0], "researcher")
		r.Config.ShareContext = true
		d := e.open(r)
		equal(e, "shared", e.thread(d.ChildThread).Config.SharedSeq, int64(3))
		e.answer(e.take(d.ChildThread), 1, "the finding")
		e.takeResult(e.firstCall(t, 2))
		e.saveRound(t, 2)
		again := delegation(e.assigns(t, 3, 1)[0], "researcher")
		again.Resume = d.ChildThread
		e.open(again)
		e.take(d.ChildThread)
		equal(e, "shared", e.thread(d.ChildThread).Config.SharedSeq, int64(3))
		equal(e, "not shared", e.thread(e.background(e.take(d.ChildThread), 1, "general").ChildThread).Config.SharedSeq, int64(0))
		e.sound(t.ThreadID)
	}},
	{"a refusal is the failed result of the call, and nothing is made", func(e *env) {
		t := e.started("s1")
		r := delegation(e.assigns(t, 1, 1)[0], "researcher")
		r.Refusal, r.RefusalReason = "agent researcher is not enabled", agent.ErrPermissionDenied
		e.refused(r)
		c := e.call(r.CallID)
		equal(e, "result", [2]string{c.Result, string(c.ErrorReason)}, [2]string{r.Refusal, "permission_denied"})
		equal(e, "tool_call events", len(e.eventsOf(t.ThreadID, agent.EventToolCall)), 1)
		e.saveRound(t, 1)
		e.answer(t, 2, "then not")
		e.sound(t.ThreadID)
	}},
	{"depth zero disables delegation", func(e *env) {
		t := e.started("s1")
		r := delegation(e.assigns(t, 1, 1)[0], "researcher")
		r.Limits.MaxDepth = 0
		e.refused(r)
	}},
	{"deeper than the depth limit is refused", func(e *env) {
		t := e.started("s1")
		for range 3 {
			t = e.take(e.delegate(t, 1, "researcher").ChildThread)
		}
		equal(e, "depth", e.thread(t.ThreadID).Depth, 3)
		e.refused(delegation(e.assigns(t, 1, 1)[0], "researcher"))
		e.sound("s1/default")
	}},
	{"more open children than the fan-out limit are refused until one ends", func(e *env) {
		t := e.started("s1")
		calls := e.assigns(t, 1, 4)
		narrow := func(c agent.ToolCall) memory.DelegationRequest {
			r := delegation(c, "researcher")
			r.Limits.MaxFanOut = 2
			return r
		}
		first := e.open(narrow(calls[0]))
		equal(e, "second", e.open(narrow(calls[1])).Refused, false)
		e.refused(narrow(calls[2]))
		e.answer(e.take(first.ChildThread), 1, "done")
		e.takeResult(calls[0])
		equal(e, "after one ended", e.open(narrow(calls[3])).Refused, false)
		e.sound(t.ThreadID)
	}},
	{"more descendants than the tree may have are refused", func(e *env) {
		t := e.started("s1")
		calls := e.assigns(t, 1, 2)
		child := e.take(e.open(delegation(calls[0], "researcher")).ChildThread)
		e.take(e.delegate(child, 1, "researcher").ChildThread)
		r := delegation(calls[1], "researcher")
		r.Limits.MaxDescendants = 2
		e.refused(r)
	}},
}

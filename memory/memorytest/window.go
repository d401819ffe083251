package memorytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// windows checks that readings of a part of a thread are parts of the whole.
func (e *env) windows(threadID string) {
	e.Helper()
	calls := must[[]agent.ToolCall](e)(e.s.ToolCalls(e.ctx, threadID))
	tasks := must[[]agent.Task](e)(e.s.Tasks(e.ctx, threadID))
	var ids []string
	for _, c := range slices.Backward(calls) {
		ids = append(ids, c.ID)
	}
	equal(e, "all calls by id", append([]agent.ToolCall{}, must[[]agent.ToolCall](e)(e.s.ToolCallsOf(e.ctx, threadID, ids))...), append([]agent.ToolCall{}, calls...))
	equal(e, "all tasks by call", append([]agent.Task{}, must[[]agent.Task](e)(e.s.TasksOf(e.ctx, threadID, ids))...), append([]agent.Task{}, tasks...))
	open := must[[]string](e)(e.s.OpenCalls(e.ctx, threadID))
	for _, c := range calls {
		if !c.Status.Final() && !slices.Contains(open, c.ID) {
			e.Errorf("call %s (%s) is not among the open ones, %q", c.ID, c.Status, open)
		}
	}
	for _, k := range tasks {
		ended := k.Status == agent.TaskSuccess || k.Status == agent.TaskFailed || k.Status == agent.TaskCancelled
		if !ended && !slices.Contains(open, agent.CallOfTask(k.ID)) {
			e.Errorf("the call of task %s (%s) is not among the open ones, %q", k.ID, k.Status, open)
		}
	}
	inbox := e.inbox(threadID)
	var waiting []memory.InboxEntry
	for _, x := range inbox {
		if x.State == memory.EntryWaiting {
			waiting = append(waiting, x)
		}
	}
	equal(e, "waiting", append([]memory.InboxEntry(nil), must[[]memory.InboxEntry](e)(e.s.Waiting(e.ctx, threadID))...), waiting)
	var back []memory.InboxEntry
	for before := int64(0); ; before = back[len(back)-1].Seq {
		part := must[[]memory.InboxEntry](e)(e.s.InboxBefore(e.ctx, threadID, before, 2))
		if len(part) == 0 {
			break
		}
		back = append(back, part...)
	}
	slices.Reverse(back)
	equal(e, "the inbox read backward", back, append([]memory.InboxEntry(nil), inbox...))
	last := must[*memory.Turn](e)(e.s.LastTurn(e.ctx, threadID))
	if turns := must[[]memory.Turn](e)(e.s.TurnsOf(e.ctx, threadID)); len(turns) > 0 {
		equal(e, "last turn", *last, turns[len(turns)-1])
	} else if last != nil {
		e.Errorf("there is a last turn, %s, of none", last.ID)
	}
	th, m := e.thread(threadID), e.mark(threadID)
	equal(e, "last event and open turn", [2]any{m.LastEvent, m.TurnID}, [2]any{int64(len(e.events(threadID))), th.OpenTurnID})
	if m.Idle && (th.OpenTurnID != "" || slices.ContainsFunc(waiting, func(x memory.InboxEntry) bool { return !x.Quiet })) {
		e.Errorf("%s counts as idle", threadID)
	}
}

func (e *env) mark(threadID string) memory.Mark {
	e.Helper()
	marks := must[[]memory.Mark](e)(e.s.Mark(e.ctx, []string{threadID}))
	if len(marks) != 1 {
		e.Fatalf("%d marks of %s", len(marks), threadID)
	}
	return marks[0]
}

var windowRules = []rule{
	{"a mark is another one after each event and each streamed piece of its thread, and stays while others work", func(e *env) {
		other := e.started("s2")
		t := e.started("s1")
		equal(e, "idle", e.mark(t.ThreadID).Idle, false)
		seen := e.mark(t.ThreadID)
		attempt := 0
		for i, write := range []func(){
			func() { attempt = e.begin(t, 1) },
			func() { e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, attempt, 0, "x"))) },
			func() { e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, attempt, 1, "y"))) },
			func() { attempt = e.begin(t, 1) },
			func() { must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, record(t, 1, attempt, "xyz", lookup(1)))) },
			func() { e.runTool(e.firstCall(t, 1), "r"); e.saveRound(t, 1) },
			func() { e.answer(t, 2, "done") },
		} {
			e.answerStep(other, i+1)
			equal(e, "while another thread worked", e.mark(t.ThreadID), seen)
			write()
			now := e.mark(t.ThreadID)
			if now == seen {
				e.Errorf("write %d did not change the mark %+v", i, now)
			}
			seen = now
		}
		equal(e, "idle", seen.Idle, true)
		e.send("s1", "m2")
		equal(e, "idle with a message", e.mark(t.ThreadID).Idle, false)
	}},
	{"many threads are marked in one reading, those that are not there are left out", func(e *env) {
		var ids []string
		for i := range 70 {
			ids = append(ids, e.send(fmt.Sprintf("s%d", i), "m1").ThreadID)
		}
		marks := must[[]memory.Mark](e)(e.s.Mark(e.ctx, append([]string{"none/default"}, ids...)))
		var got []string
		for _, m := range marks {
			got = append(got, m.ThreadID)
		}
		slices.Sort(got)
		slices.Sort(ids)
		equal(e, "threads", got, ids)
		equal(e, "none", len(must[[]memory.Mark](e)(e.s.Mark(e.ctx, nil))), 0)
	}},
	{"calls and tasks are read by name, in order, and of their thread only", func(e *env) {
		t, other := e.started("s1"), e.started("s2")
		foreign := e.calls(other, 1, 1)[0].ID
		var ids []string
		for n := 1; n <= 3; n++ {
			for _, c := range e.calls(t, n, 2) {
				e.runTool(c, "r")
				ids = append(ids, c.ID)
			}
			e.saveRound(t, n)
		}
		var got, tasks []string
		asked := []string{ids[4], foreign, "call_none", ids[1], ids[0]}
		for _, c := range must[[]agent.ToolCall](e)(e.s.ToolCallsOf(e.ctx, t.ThreadID, asked)) {
			got = append(got, c.ID)
		}
		for _, k := range must[[]agent.Task](e)(e.s.TasksOf(e.ctx, t.ThreadID, asked)) {
			tasks = append(tasks, agent.CallOfTask(k.ID))
		}
		want := []string{ids[0], ids[1], ids[4]}
		equal(e, "calls", got, want)
		equal(e, "tasks", tasks, want)
	}},
	{"a task in the background is open until its sub-agent ends, whatever came after", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		e.answer(t, 2, "it is on its way")
		is := func(want ...string) {
			e.Helper()
			equal(e, "open", append([]string{}, must[[]string](e)(e.s.OpenCalls(e.ctx, t.ThreadID))...), append([]string{}, want...))
		}
		is(agent.CallOfTask(d.TaskID))
		child := e.take(d.ChildThread)
		is(agent.CallOfTask(d.TaskID))
		e.answer(child, 1, "found")
		is()
		e.windows(t.ThreadID)
	}},
	{"a list can be read since a time", func(e *env) {
		e.send("s1", "m1")
		e.h.Clock.Advance(time.Second)
		t := e.started("s2")
		at := e.thread(t.ThreadID).UpdatedAt
		child := e.delegate(t, 1, "researcher").ChildThread
		equal(e, "since", e.threads(memory.ThreadFilter{UserID: user, Since: at}), []string{t.ThreadID})
		all := e.threads(memory.ThreadFilter{UserID: user, Since: at, All: true})
		slices.Sort(all)
		equal(e, "sub-agents too", all, []string{child, t.ThreadID})
		equal(e, "later", len(e.threads(memory.ThreadFilter{UserID: user, Since: at.Add(time.Second), All: true})), 0)
	}},
}

// answerStep runs a step with a tool.
func (e *env) answerStep(t memory.Turn, step int) {
	e.Helper()
	e.runTool(e.calls(t, step, 1)[0], "r")
	e.saveRound(t, step)
}

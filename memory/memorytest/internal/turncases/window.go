package turncases

import (
	"fmt"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var windowRules = []suite.Rule{
	{Name: "a mark is another one after each event and each streamed piece of its thread, and stays while others work", Run: func(e *suite.Env) {
		other := e.Started("s2")
		t := e.Started("s1")
		suite.Equal(e, "idle", e.Mark(t.ThreadID).Idle, false)
		seen := e.Mark(t.ThreadID)
		attempt := 0
		for i, write := range []func(){
			func() { attempt = e.Begin(t, 1) },
			func() { e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, attempt, 0, "x"))) },
			func() { e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, attempt, 1, "y"))) },
			func() { attempt = e.Begin(t, 1) },
			func() {
				suite.Must[memory.StoredReply](e)(e.S.SaveReply(e.Ctx, suite.Record(t, 1, attempt, "xyz", suite.Lookup(1))))
			},
			func() { e.RunTool(e.FirstCall(t, 1), "r"); e.SaveRound(t, 1) },
			func() { e.Answer(t, 2, "done") },
		} {
			e.AnswerStep(other, i+1)
			suite.Equal(e, "while another thread worked", e.Mark(t.ThreadID), seen)
			write()
			now := e.Mark(t.ThreadID)
			if now == seen {
				e.Errorf("write %d did not change the mark %+v", i, now)
			}
			seen = now
		}
		suite.Equal(e, "idle", seen.Idle, true)
		e.Send("s1", "m2")
		suite.Equal(e, "idle with a message", e.Mark(t.ThreadID).Idle, false)
	}},
	{Name: "many threads are marked in one reading, those that are not there are left out", Run: func(e *suite.Env) {
		var ids []string
		for i := range 70 {
			ids = append(ids, e.Send(fmt.Sprintf("s%d", i), "m1").ThreadID)
		}
		marks := suite.Must[[]memory.Mark](e)(e.S.Mark(e.Ctx, append([]string{"none/default"}, ids...)))
		var got []string
		for _, m := range marks {
			got = append(got, m.ThreadID)
		}
		slices.Sort(got)
		slices.Sort(ids)
		suite.Equal(e, "threads", got, ids)
		suite.Equal(e, "none", len(suite.Must[[]memory.Mark](e)(e.S.Mark(e.Ctx, nil))), 0)
	}},
	{Name: "calls and tasks are read by name, in order, and of their thread only", Run: func(e *suite.Env) {
		t, other := e.Started("s1"), e.Started("s2")
		foreign := e.Calls(other, 1, 1)[0].ID
		var ids []string
		for n := 1; n <= 3; n++ {
			for _, c := range e.Calls(t, n, 2) {
				e.RunTool(c, "r")
				ids = append(ids, c.ID)
			}
			e.SaveRound(t, n)
		}
		var got, tasks []string
		asked := []string{ids[4], foreign, "call_none", ids[1], ids[0]}
		for _, c := range suite.Must[[]agent.ToolCall](e)(e.S.ToolCallsOf(e.Ctx, t.ThreadID, asked)) {
			got = append(got, c.ID)
		}
		for _, k := range suite.Must[[]agent.Task](e)(e.S.TasksOf(e.Ctx, t.ThreadID, asked)) {
			tasks = append(tasks, agent.CallOfTask(k.ID))
		}
		want := []string{ids[0], ids[1], ids[4]}
		suite.Equal(e, "calls", got, want)
		suite.Equal(e, "tasks", tasks, want)
	}},
	{Name: "a task in the background is open until its sub-agent ends, whatever came after", Run: func(e *suite.Env) {
		t := e.Started("s1")
		d := e.Background(t, 1, "researcher")
		e.SaveRound(t, 1)
		e.Answer(t, 2, "it is on its way")
		is := func(want ...string) {
			e.Helper()
			suite.Equal(e, "open", append([]string{}, suite.Must[[]string](e)(e.S.OpenCalls(e.Ctx, t.ThreadID))...), append([]string{}, want...))
		}
		is(agent.CallOfTask(d.TaskID))
		child := e.Take(d.ChildThread)
		is(agent.CallOfTask(d.TaskID))
		e.Answer(child, 1, "found")
		is()
		e.Windows(t.ThreadID)
	}},
	{Name: "a list can be read since a time", Run: func(e *suite.Env) {
		e.Send("s1", "m1")
		e.H.Clock.Advance(time.Second)
		t := e.Started("s2")
		at := e.Thread(t.ThreadID).UpdatedAt
		child := e.Delegate(t, 1, "researcher").ChildThread
		suite.Equal(e, "since", e.Threads(memory.ThreadFilter{UserID: suite.User, Since: at}), []string{t.ThreadID})
		all := e.Threads(memory.ThreadFilter{UserID: suite.User, Since: at, All: true})
		slices.Sort(all)
		suite.Equal(e, "sub-agents too", all, []string{child, t.ThreadID})
		suite.Equal(e, "later", len(e.Threads(memory.ThreadFilter{UserID: suite.User, Since: at.Add(time.Second), All: true})), 0)
	}},
}

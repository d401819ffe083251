package memorytest

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

var toolRules = []rule{
	{"a stored reply makes its calls, their events and their tasks", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 2)
		equal(e, "events", e.types(t.ThreadID)[1:], []string{agent.EventToolCalls, agent.EventToolCall, agent.EventToolCall})
		rows := must[[]agent.ToolCall](e)(e.s.ToolCalls(e.ctx, t.ThreadID))
		equal(e, "rows", len(rows), 2)
		tasks := must[[]agent.Task](e)(e.s.Tasks(e.ctx, t.ThreadID))
		equal(e, "tasks", len(tasks), 2)
		for i, k := range tasks {
			equal(e, "task", [4]string{k.ID, k.Type, k.Name, k.ThreadID}, [4]string{agent.TaskID(calls[i].ID), "tool", "tool:lookup", t.ThreadID})
			equal(e, "trigger", k.TriggerMessageID, e.messages(t.ThreadID)[0].ID)
			equal(e, "status", k.Status, agent.TaskPending)
		}
		e.sound(t.ThreadID)
	}},
	{"a result is durable the moment its tool ends", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 2)
		a := e.beginTool(calls[0], false)
		equal(e, "attempt", a, 1)
		equal(e, "running", e.call(calls[0].ID).Status, agent.CallRunning)
		e.ok(e.s.SaveResult(e.ctx, result(calls[0], a, "found")))
		c := e.call(calls[0].ID)
		equal(e, "call", [2]string{string(c.Status), c.Result}, [2]string{"success", "found"})
		equal(e, "duration", c.DurationMs, int64(7))
		equal(e, "responses", len(e.eventsOf(t.ThreadID, agent.EventToolResponse)), 1)
		equal(e, "task", must[[]agent.Task](e)(e.s.Tasks(e.ctx, t.ThreadID))[0].Status, agent.TaskSuccess)
		equal(e, "no message before the round", len(e.messages(t.ThreadID)), 1)
		e.sound(t.ThreadID)
	}},
	{"what a tool tells while it runs is an event of the log, later it is stale", func(e *env) {
		t := e.started("s1")
		c := e.calls(t, 1, 1)[0]
		note := memory.ToolNote{ThreadID: t.ThreadID, TurnID: t.ID, CallID: c.ID, Attempt: 1, Event: agent.EventToolProgress, Data: json.RawMessage(`{"progress":1}`)}
		e.unchanged(t.ThreadID, func() { e.stale(e.s.NoteTool(e.ctx, note)) })
		note.Attempt = e.beginTool(c, true)
		e.ok(e.s.NoteTool(e.ctx, note))
		equal(e, "notes", e.eventsOf(t.ThreadID, agent.EventToolProgress)[0]["progress"], any(1.0))
		e.sound(t.ThreadID)
		again := e.beginTool(c, true)
		e.unchanged(t.ThreadID, func() { e.stale(e.s.NoteTool(e.ctx, note)) })
		e.ok(e.s.SaveResult(e.ctx, result(c, again, "found")))
		note.Attempt = again
		e.unchanged(t.ThreadID, func() { e.stale(e.s.NoteTool(e.ctx, note)) })
		e.sound(t.ThreadID)
	}},
	{"a tool whose result is stored never runs again", func(e *env) {
		t := e.started("s1")
		c := e.calls(t, 1, 1)[0]
		e.runTool(c, "found")
		e.unchanged(t.ThreadID, func() {
			for _, repeatable := range []bool{true, false} {
				st := must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, e.toolBegin(c, repeatable)))
				equal(e, "final", st.Final, true)
				equal(e, "result", st.Call.Result, "found")
			}
		})
	}},
	{"a repeatable call is begun again, and the attempt before is stale", func(e *env) {
		t := e.started("s1")
		c := e.calls(t, 1, 1)[0]
		b := e.toolBegin(c, true)
		first := must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b)).Attempt
		e.unchanged(t.ThreadID, func() {
			equal(e, "repeated begin", must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b)).Attempt, first)
		})
		b.Fence.Number = 2
		second := must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b)).Attempt
		equal(e, "attempt", second, first+1)
		e.unchanged(t.ThreadID, func() {
			e.stale(e.s.SaveResult(e.ctx, result(c, first, "late")))
			b.Fence.Number = 1
			_, err := e.s.BeginTool(e.ctx, b)
			e.stale(err)
		})
		e.ok(e.s.SaveResult(e.ctx, result(c, second, "good")))
		equal(e, "result", e.call(c.ID).Result, "good")
		equal(e, "attempts", e.call(c.ID).Attempts, 2)
		e.sound(t.ThreadID)
	}},
	{"a call that is not repeatable and was found running ends as unknown and says so", func(e *env) {
		t := e.started("s1")
		c := e.calls(t, 1, 1)[0]
		b := e.toolBegin(c, false)
		first := must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b)).Attempt
		b.Fence.Number = 2
		st := must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b))
		equal(e, "final", st.Final, true)
		equal(e, "status", st.Call.Status, agent.CallUnknown)
		equal(e, "text", st.Call.Result, agent.TextUnknown)
		equal(e, "task", must[[]agent.Task](e)(e.s.Tasks(e.ctx, t.ThreadID))[0].Status, agent.TaskFailed)
		e.unchanged(t.ThreadID, func() {
			if err := e.s.SaveResult(e.ctx, result(c, first, "late")); err != nil {
				e.stale(err)
			}
			b.Fence.Number = 3
			equal(e, "final", must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b)).Final, true)
		})
		e.sound(t.ThreadID)
	}},
	{"a lower number of a tool's scope is stale although another scope came between", func(e *env) {
		t := e.started("s1")
		c := e.calls(t, 1, 1)[0]
		b := e.toolBegin(c, true)
		b.Fence.Number = 2
		must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b))
		a := e.beginTool(c, true)
		e.unchanged(t.ThreadID, func() {
			b.Fence.Number = 1
			_, err := e.s.BeginTool(e.ctx, b)
			e.stale(err)
		})
		e.ok(e.s.SaveResult(e.ctx, result(c, a, "good")))
	}},
	{"an unknown tool or bad arguments get a failed result without a run", func(e *env) {
		t := e.started("s1")
		c := e.calls(t, 1, 1)[0]
		r := result(c, 0, "")
		r.Result = agent.ToolFailed(agent.ErrToolNotFound, "there is no tool lookup")
		e.ok(e.s.SaveResult(e.ctx, r))
		got := e.call(c.ID)
		equal(e, "status", [2]string{string(got.Status), string(got.ErrorReason)}, [2]string{"failed", "tool_not_found"})
		equal(e, "task", must[[]agent.Task](e)(e.s.Tasks(e.ctx, t.ThreadID))[0].Status, agent.TaskFailed)
		e.unchanged(t.ThreadID, func() { e.ok(e.s.SaveResult(e.ctx, r)) })
		e.saveRound(t, 1)
		e.sound(t.ThreadID)
	}},
	{"results of parallel calls are all kept", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 16)
		var wg sync.WaitGroup
		errs := make([]error, len(calls))
		for i, c := range calls {
			b := e.toolBegin(c, false)
			wg.Go(func() {
				st, err := e.s.BeginTool(e.ctx, b)
				if err == nil {
					err = e.s.SaveResult(e.ctx, result(c, st.Attempt, fmt.Sprintf("r%d", i)))
				}
				errs[i] = err
			})
		}
		wg.Wait()
		for _, err := range errs {
			e.ok(err)
		}
		equal(e, "results", e.saveRound(t, 1).Results, len(calls))
		for i, m := range e.messages(t.ThreadID)[2:] {
			equal(e, "result", [2]string{m.ToolCallID, m.Content.String()}, [2]string{calls[i].ID, fmt.Sprintf("r%d", i)})
		}
		e.sound(t.ThreadID)
	}},
	{"a call of another turn or thread is not there", func(e *env) {
		t := e.started("s1")
		other := e.started("s2")
		c := e.calls(t, 1, 1)[0]
		b := e.toolBegin(c, true)
		b.ThreadID, b.TurnID = other.ThreadID, other.ID
		_, err := e.s.BeginTool(e.ctx, b)
		e.code(err, agent.CodeNotFound, agent.CodeStale, agent.CodeInvalid)
		equal(e, "status", e.call(c.ID).Status, agent.CallPending)
		_, err = e.s.ToolCall(e.ctx, "call_none_1_0")
		e.code(err, agent.CodeNotFound)
	}},
}

var roundRules = []rule{
	{"a round is the assistant message with all its results, together", func(e *env) {
		t := e.started("s1")
		stored := e.reply(t, 1, "let me look", lookup(0), lookup(1))
		e.runTool(stored.Calls[1], "second")
		e.runTool(stored.Calls[0], "first")
		saved := e.saveRound(t, 1)
		equal(e, "saved", saved, memory.RoundSaved{FromSeq: 2, ToSeq: 4, Results: 2})
		ms := e.messages(t.ThreadID)[1:]
		equal(e, "assistant", [3]string{ms[0].ID, string(ms[0].Role), ms[0].Content.String()}, [3]string{agent.MessageID(t.ID, 1), "assistant", "let me look"})
		for i, text := range []string{"first", "second"} {
			equal(e, "call", ms[0].ToolCalls[i].ID, stored.Calls[i].ID)
			equal(e, "result", [4]string{ms[i+1].ID, string(ms[i+1].Role), ms[i+1].ToolCallID, ms[i+1].Content.String()},
				[4]string{agent.ToolMessageID(stored.Calls[i].ID), "tool", stored.Calls[i].ID, text})
		}
		e.sound(t.ThreadID)
	}},
	{"a round is refused while a call has no result", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 2)
		e.runTool(calls[0], "first")
		a := e.beginTool(calls[1], true)
		e.unchanged(t.ThreadID, func() {
			_, err := e.s.SaveToolRound(e.ctx, round(t, 1))
			e.code(err, agent.CodeConflict)
		})
		e.ok(e.s.SaveResult(e.ctx, result(calls[1], a, "second")))
		e.saveRound(t, 1)
	}},
	{"a saved round replaces what was streamed for it", func(e *env) {
		t := e.started("s1")
		a := e.begin(t, 1)
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, a, 0, "let me")))
		stored := must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, record(t, 1, a, "let me look", lookup(0))))
		s := must[*memory.Streamed](e)(e.s.Stream(e.ctx, t.ThreadID))
		if s == nil || !s.Stored || s.Text != "let me look" {
			e.Fatalf("a stored reply that is not saved reads %+v", s)
		}
		e.runTool(stored.Calls[0], "first")
		e.saveRound(t, 1)
		equal(e, "stream", e.stream(t.ThreadID), "<nil>")
	}},
	{"many rounds give one more assistant message than rounds, and no id twice", func(e *env) {
		t := e.started("s1")
		const rounds = 12
		for n := 1; n <= rounds; n++ {
			e.runTool(e.calls(t, n, 1)[0], fmt.Sprintf("r%d", n))
			e.saveRound(t, n)
		}
		e.answer(t, rounds+1, "done")
		assistants := 0
		for _, m := range e.messages(t.ThreadID) {
			if m.Role == agent.RoleAssistant {
				assistants++
			}
		}
		equal(e, "assistant messages", assistants, rounds+1)
		equal(e, "steps", len(must[[]memory.Step](e)(e.s.Steps(e.ctx, t.ID))), rounds+1)
		e.sound(t.ThreadID)
	}},
}

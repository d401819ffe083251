package turncases

import (
	"encoding/json"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var toolRules = []suite.Rule{
	{Name: "a stored reply makes its calls, their events and their tasks", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 2)
		suite.Equal(e, "events", e.Types(t.ThreadID)[1:], []string{agent.EventToolCalls, agent.EventToolCall, agent.EventToolCall})
		rows := suite.Must(e.S.ToolCalls(e.Ctx, t.ThreadID))(e)
		suite.Equal(e, "rows", len(rows), 2)
		tasks := suite.Must(e.S.Tasks(e.Ctx, t.ThreadID))(e)
		suite.Equal(e, "tasks", len(tasks), 2)
		for i, k := range tasks {
			suite.Equal(e, "task", [4]string{k.ID, k.Type, k.Name, k.ThreadID}, [4]string{agent.TaskID(calls[i].ID), "tool", "tool:lookup", t.ThreadID})
			suite.Equals(e, "trigger", k.TriggerMessageID, e.Messages(t.ThreadID)[0].ID, "status", k.Status, agent.TaskPending)
		}
	}},
	{Name: "a result is durable the moment its tool ends", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 2)
		a := e.BeginTool(calls[0], false)
		suite.Equals(e, "attempt", a, 1, "running", e.Call(calls[0].ID).Status, agent.CallRunning)
		e.Ok(e.S.SaveResult(e.Ctx, suite.Result(calls[0], a, "found")))
		c := e.Call(calls[0].ID)
		suite.Equals(e, "call", [2]string{string(c.Status), c.Result}, [2]string{"success", "found"}, "duration", c.DurationMs, int64(7))
		suite.Equal(e, "responses", len(e.EventsOf(t.ThreadID, agent.EventToolResponse)), 1)
		suite.Equal(e, "task", suite.Must(e.S.Tasks(e.Ctx, t.ThreadID))(e)[0].Status, agent.TaskSuccess)
		suite.Equal(e, "no message before the round", len(e.Messages(t.ThreadID)), 1)
	}},
	{Name: "what a tool tells while it runs is an event of the log, later it is stale", Turn: func(e *suite.Env, t memory.Turn) {
		c := e.Calls(t, 1, 1)[0]
		note := memory.ToolNote{ThreadID: t.ThreadID, TurnID: t.ID, CallID: c.ID, Attempt: 1, Event: agent.EventToolProgress, Data: json.RawMessage(`{"progress":1}`)}
		e.Unchanged(t.ThreadID, func() { e.Stale(e.S.NoteTool(e.Ctx, note)) })
		note.Attempt = e.BeginTool(c, true)
		e.Ok(e.S.NoteTool(e.Ctx, note))
		suite.Equal(e, "notes", e.EventsOf(t.ThreadID, agent.EventToolProgress)[0]["progress"], any(1.0))
		e.Sound(t.ThreadID)
		again := e.BeginTool(c, true)
		e.Unchanged(t.ThreadID, func() { e.Stale(e.S.NoteTool(e.Ctx, note)) })
		e.Ok(e.S.SaveResult(e.Ctx, suite.Result(c, again, "found")))
		note.Attempt = again
		e.Unchanged(t.ThreadID, func() { e.Stale(e.S.NoteTool(e.Ctx, note)) })
	}},
	{Name: "a tool whose result is stored never runs again", Turn: func(e *suite.Env, t memory.Turn) {
		c := e.Calls(t, 1, 1)[0]
		e.RunTool(c, "found")
		e.Unchanged(t.ThreadID, func() {
			for _, repeatable := range []bool{true, false} {
				st := suite.Must(e.S.BeginTool(e.Ctx, e.ToolBegin(c, repeatable)))(e)
				suite.Equals(e, "final", st.Final, true, "result", st.Call.Result, "found")
			}
		})
	}},
	{Name: "a repeatable call is begun again, and the attempt before is stale", Turn: func(e *suite.Env, t memory.Turn) {
		c := e.Calls(t, 1, 1)[0]
		b := e.ToolBegin(c, true)
		first := suite.Must(e.S.BeginTool(e.Ctx, b))(e).Attempt
		e.Unchanged(t.ThreadID, func() {
			suite.Equal(e, "repeated begin", suite.Must(e.S.BeginTool(e.Ctx, b))(e).Attempt, first)
		})
		b.Fence.Number = 2
		second := suite.Must(e.S.BeginTool(e.Ctx, b))(e).Attempt
		suite.Equal(e, "attempt", second, first+1)
		e.Unchanged(t.ThreadID, func() {
			e.Stale(e.S.SaveResult(e.Ctx, suite.Result(c, first, "late")))
			b.Fence.Number = 1
			suite.Fails(e.S.BeginTool(e.Ctx, b))(e, agent.CodeStale)
		})
		e.Ok(e.S.SaveResult(e.Ctx, suite.Result(c, second, "good")))
		suite.Equals(e, "result", e.Call(c.ID).Result, "good", "attempts", e.Call(c.ID).Attempts, 2)
	}},
	{Name: "calls are begun together, and saved together with their round", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 2)
		b := memory.ToolBegin{ThreadID: t.ThreadID, TurnID: t.ID, Repeatable: true}
		starts := suite.Must(e.S.BeginTools(e.Ctx, b, []string{calls[0].ID, calls[1].ID}))(e)
		suite.Equals(e, "attempts", []int{starts[0].Attempt, starts[1].Attempt}, []int{1, 1}, "names", starts[1].Call.ID, calls[1].ID)
		results := []memory.ToolOutcome{suite.Result(calls[0], 1, "one"), suite.Result(calls[1], 2, "of an attempt that never began")}
		e.Unchanged(t.ThreadID, func() { suite.Fails(e.S.SaveResults(e.Ctx, results))(e, agent.CodeStale) })
		results[1] = suite.Result(calls[1], 1, "two")
		saved := suite.Must(e.S.SaveResults(e.Ctx, results))(e)
		suite.Equals(e, "round", *saved, suite.Must(e.S.SaveToolRound(e.Ctx, memory.RoundRequest{ThreadID: t.ThreadID, TurnID: t.ID, Step: 1}))(e), "messages", len(e.Messages(t.ThreadID)), 4)
		e.Unchanged(t.ThreadID, func() {
			suite.Must(e.S.SaveResults(e.Ctx, results))(e)
			for _, st := range suite.Must(e.S.BeginTools(e.Ctx, b, []string{calls[0].ID, calls[1].ID}))(e) {
				suite.Equal(e, "final", st.Final, true)
			}
		})
	}},
	{Name: "a call that is given back is begun again, and nobody is blamed", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 2)
		b := memory.ToolBegin{ThreadID: t.ThreadID, TurnID: t.ID, Repeatable: true, Worker: "one"}
		suite.Must(e.S.BeginTools(e.Ctx, b, []string{calls[0].ID, calls[1].ID}))(e)
		back := memory.ToolOutcome{ThreadID: t.ThreadID, TurnID: t.ID, CallID: calls[0].ID, Attempt: 1, Result: agent.ToolResult{Status: agent.CallPending}}
		e.Code(e.S.SaveResult(e.Ctx, back), agent.CodeInvalid)
		saved := suite.Must(e.S.SaveResults(e.Ctx, []memory.ToolOutcome{back, suite.Result(calls[1], 1, "two")}))(e)
		suite.Equals(e, "round", saved == nil, true, "status", e.Call(calls[0].ID).Status, agent.CallPending, "the other", e.Call(calls[1].ID).Result, "two")
		e.Unchanged(t.ThreadID, func() { e.Stale(e.S.SaveResult(e.Ctx, suite.Result(calls[0], 1, "late"))) })
		again := e.ToolBegin(calls[0], true)
		again.Worker = "another"
		st := suite.Must(e.S.BeginTool(e.Ctx, again))(e)
		suite.Equals(e, "attempt", st.Attempt, 2, "lost", st.Lost, 0)
		e.Ok(e.S.SaveResult(e.Ctx, suite.Result(calls[0], 2, "one")))
		suite.Equal(e, "messages", len(e.Messages(t.ThreadID)), 4)
	}},
	{Name: "a call that is not repeatable and was found running ends as unknown and says so", Turn: func(e *suite.Env, t memory.Turn) {
		c := e.Calls(t, 1, 1)[0]
		b := e.ToolBegin(c, false)
		first := suite.Must(e.S.BeginTool(e.Ctx, b))(e).Attempt
		b.Fence.Number = 2
		st := suite.Must(e.S.BeginTool(e.Ctx, b))(e)
		suite.Equals(e, "final", st.Final, true, "status", st.Call.Status, agent.CallUnknown, "text", st.Call.Result, agent.TextUnknown)
		suite.Equal(e, "task", suite.Must(e.S.Tasks(e.Ctx, t.ThreadID))(e)[0].Status, agent.TaskFailed)
		e.Unchanged(t.ThreadID, func() {
			if err := e.S.SaveResult(e.Ctx, suite.Result(c, first, "late")); err != nil {
				e.Stale(err)
			}
			b.Fence.Number = 3
			suite.Equal(e, "final", suite.Must(e.S.BeginTool(e.Ctx, b))(e).Final, true)
		})
	}},
	{Name: "an unknown tool or bad arguments get a failed result without a run", Turn: func(e *suite.Env, t memory.Turn) {
		c := e.Calls(t, 1, 1)[0]
		r := suite.Result(c, 0, "")
		r.Result = agent.ToolFailed(agent.ErrToolNotFound, "there is no tool lookup")
		e.Ok(e.S.SaveResult(e.Ctx, r))
		got := e.Call(c.ID)
		suite.Equal(e, "status", [2]string{string(got.Status), string(got.ErrorReason)}, [2]string{"failed", "tool_not_found"})
		suite.Equal(e, "task", suite.Must(e.S.Tasks(e.Ctx, t.ThreadID))(e)[0].Status, agent.TaskFailed)
		e.Unchanged(t.ThreadID, func() { e.Ok(e.S.SaveResult(e.Ctx, r)) })
		e.SaveRound(t, 1)
	}},
	{Name: "a call of another turn or thread is not there", Turn: func(e *suite.Env, t memory.Turn) {
		other := e.Started("s2")
		c := e.Calls(t, 1, 1)[0]
		b := e.ToolBegin(c, true)
		b.ThreadID, b.TurnID = other.ThreadID, other.ID
		suite.Fails(e.S.BeginTool(e.Ctx, b))(e, agent.CodeNotFound, agent.CodeStale, agent.CodeInvalid)
		suite.Equal(e, "status", e.Call(c.ID).Status, agent.CallPending)
		suite.Fails(e.S.ToolCall(e.Ctx, "call_none_1_0"))(e, agent.CodeNotFound)
	}},
}

var roundRules = []suite.Rule{
	{Name: "a round is the assistant message with all its results, together", Turn: func(e *suite.Env, t memory.Turn) {
		stored := e.Reply(t, 1, "let me look", suite.Lookup(0), suite.Lookup(1))
		e.RunTool(stored.Calls[1], "second")
		e.RunTool(stored.Calls[0], "first")
		saved := e.SaveRound(t, 1)
		suite.Equal(e, "saved", saved, memory.RoundSaved{FromSeq: 2, ToSeq: 4, Results: 2})
		ms := e.Messages(t.ThreadID)[1:]
		suite.Equal(e, "assistant", [3]string{ms[0].ID, string(ms[0].Role), ms[0].Content.String()}, [3]string{agent.MessageID(t.ID, 1), "assistant", "let me look"})
		for i, text := range []string{"first", "second"} {
			suite.Equal(e, "call", ms[0].ToolCalls[i].ID, stored.Calls[i].ID)
			suite.Equal(e, "result", [4]string{ms[i+1].ID, string(ms[i+1].Role), ms[i+1].ToolCallID, ms[i+1].Content.String()},
				[4]string{agent.ToolMessageID(stored.Calls[i].ID), "tool", stored.Calls[i].ID, text})
		}
	}},
	{Name: "a round is refused while a call has no result", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 2)
		e.RunTool(calls[0], "first")
		a := e.BeginTool(calls[1], true)
		e.Unchanged(t.ThreadID, func() {
			suite.Fails(e.S.SaveToolRound(e.Ctx, suite.Round(t, 1)))(e, agent.CodeConflict)
		})
		e.Ok(e.S.SaveResult(e.Ctx, suite.Result(calls[1], a, "second")))
		e.SaveRound(t, 1)
	}},
	{Name: "a saved round replaces what was streamed for it", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Begin(t, 1)
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, a, 0, "let me")))
		stored := suite.Must(e.S.SaveReply(e.Ctx, suite.Record(t, 1, a, "let me look", suite.Lookup(0))))(e)
		s := suite.Must(e.S.Stream(e.Ctx, t.ThreadID))(e)
		if s == nil || !s.Stored || s.Text != "let me look" {
			e.Fatalf("a stored reply that is not saved reads %+v", s)
		}
		e.RunTool(stored.Calls[0], "first")
		e.SaveRound(t, 1)
		suite.Equal(e, "stream", e.Stream(t.ThreadID), "<nil>")
	}},
	{Name: "many rounds give one more assistant message than rounds, and no id twice", Turn: func(e *suite.Env, t memory.Turn) {
		const rounds = 12
		for n := 1; n <= rounds; n++ {
			e.Step(t, n, fmt.Sprintf("r%d", n))
		}
		e.Answer(t, rounds+1, "done")
		assistants := 0
		for _, m := range e.Messages(t.ThreadID) {
			if m.Role == agent.RoleAssistant {
				assistants++
			}
		}
		suite.Equals(e, "assistant messages", assistants, rounds+1, "steps", len(suite.Must(e.S.Steps(e.Ctx, t.ID))(e)), rounds+1)
	}},
}

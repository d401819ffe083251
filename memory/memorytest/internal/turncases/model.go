package turncases

import (
	"fmt"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var modelRules = []suite.Rule{
	{Name: "a new attempt makes the one before stale", Turn: func(e *suite.Env, t memory.Turn) {
		b := e.ModelBegin(t, 1)
		first := suite.Must(e.S.BeginModel(e.Ctx, b))(e).Attempt
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, first, 0, "abc")))
		b.Fence.Number = 2
		second := suite.Must(e.S.BeginModel(e.Ctx, b))(e).Attempt
		suite.Equal(e, "attempt", second, first+1)
		e.Unchanged(t.ThreadID, func() {
			e.Stale(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, first, 3, "def")))
			e.Stale(e.S.FailModel(e.Ctx, suite.Failure(t, 1, first)))
			suite.Fails(e.S.SaveReply(e.Ctx, suite.Record(t, 1, first, "late")))(e, agent.CodeStale)
		})
		e.Answer2(t, 1, second, "good")
		suite.Equal(e, "answer", e.Turn(t.ID).Answer, "good")
	}},
	{Name: "a lower number never becomes current after a higher one of its scope", Turn: func(e *suite.Env, t memory.Turn) {
		b := e.ModelBegin(t, 1)
		b.Fence.Number = 3
		a := suite.Must(e.S.BeginModel(e.Ctx, b))(e).Attempt
		e.Unchanged(t.ThreadID, func() {
			for _, n := range []int{1, 2} {
				b.Fence.Number = n
				suite.Fails(e.S.BeginModel(e.Ctx, b))(e, agent.CodeStale)
			}
		})
		other := e.Begin(t, 1)
		suite.Equal(e, "attempt of another scope", other, a+1)
		b.Fence.Number = 2
		suite.Fails(e.S.BeginModel(e.Ctx, b))(e, agent.CodeStale)
		e.Answer2(t, 1, other, "good")
	}},
	{Name: "a stored reply is returned and the model is not called again", Turn: func(e *suite.Env, t memory.Turn) {
		stored := e.Reply(t, 1, "thinking", suite.Lookup(1), suite.Lookup(2))
		e.Unchanged(t.ThreadID, func() {
			st := suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))(e)
			if st.Stored == nil {
				e.Fatalf("the stored reply was not returned")
			}
			suite.Equals(e, "reply", st.Stored.Reply.Content, "thinking", "calls", st.Stored.Calls, stored.Calls)
		})
	}},
	{Name: "calls get our ids even where the provider repeats its own", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 3)
		for i, c := range calls {
			suite.Equals(e, "id", c.ID, agent.CallID(t.ID, 1, i), "place", [3]any{c.TurnID, c.Step, c.Index}, [3]any{t.ID, 1, i})
			suite.Equal(e, "tool", [2]string{c.ToolName, string(c.Args)}, [2]string{"lookup", fmt.Sprintf(`{"query":"q%d"}`, i)})
			suite.Equal(e, "status", c.Status, agent.CallPending)
			e.RunTool(c, "ok")
		}
		e.SaveRound(t, 1)
		second := e.Calls(t, 2, 1)
		suite.Equal(e, "id of step 2", second[0].ID, agent.CallID(t.ID, 2, 0))
	}},
	{Name: "streamed text is kept by byte offset, a piece that is there is ignored", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Begin(t, 1)
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, a, 0, "héllo")))
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, a, 0, "héllo")))
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, a, 6, " world")))
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, a, 0, "héllo")))
		suite.Equal(e, "text", e.Stream(t.ThreadID), "héllo world")
		c := suite.Chunk(t, 1, a, 12, "")
		c.Reasoning = "because"
		e.Ok(e.S.AppendChunk(e.Ctx, c))
		e.Ok(e.S.AppendChunk(e.Ctx, c))
		s := suite.Must(e.S.Stream(e.Ctx, t.ThreadID))(e)
		suite.Equal(e, "stream", *s, memory.Streamed{
			MessageID: agent.MessageID(t.ID, 1), TurnID: t.ID, Step: 1, Attempt: a, Text: "héllo world", Reasoning: "because",
		})
		suite.Equal(e, "chunks are not in the log", e.Types(t.ThreadID), []string{agent.EventMessageStarted})
	}},
	{Name: "a failed attempt keeps its text until the next begins, and its cost", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Begin(t, 1)
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, a, 0, "half")))
		e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, a)))
		e.Unchanged(t.ThreadID, func() { e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, a))) })
		suite.Equals(e, "text", e.Stream(t.ThreadID), "half", "usage", e.Turn(t.ID).Usage.TotalTokens, int64(10))
		b := e.Begin(t, 1)
		suite.Equal(e, "attempt", b, a+1)
		if s := e.Stream(t.ThreadID); s != "" && s != "<nil>" {
			e.Fatalf("a new attempt shows %q of the one before", s)
		}
		e.Answer2(t, 1, b, "good")
		suite.Equal(e, "usage", e.Turn(t.ID).Usage.TotalTokens, int64(25))
		steps := suite.Must(e.S.Steps(e.Ctx, t.ID))(e)
		suite.Equals(e, "steps", len(steps), 1, "attempts, failed", [2]int{steps[0].Attempt, steps[0].Failed}, [2]int{b, 1})
	}},
	{Name: "a steered message goes into the running turn before its next model call, once", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 1)
		r := e.Steer("s1", "m2")
		suite.Equal(e, "state", r.State, memory.EntryWaiting)
		e.RunTool(calls[0], "one")
		e.SaveRound(t, 1)
		b := e.ModelBegin(t, 2)
		st := suite.Must(e.S.BeginModel(e.Ctx, b))(e)
		suite.Equal(e, "steered", st.Steered, 1)
		e.Unchanged(t.ThreadID, func() { suite.Must(e.S.BeginModel(e.Ctx, b))(e) })
		b.Fence.Number = 2
		st = suite.Must(e.S.BeginModel(e.Ctx, b))(e)
		ms := e.Messages(t.ThreadID)
		suite.Equal(e, "messages", len(ms), 4)
		suite.Equal(e, "steered message", [3]string{string(ms[3].Role), ms[3].Source, ms[3].Content.String()}, [3]string{"user", "steer", "text of m2"})
		en := e.Entry(t.ThreadID, memory.EntryMessage, "m2")
		suite.Equal(e, "entry", [2]string{string(en.State), en.TakenBy}, [2]string{"taken", t.ID})
		suite.Equals(e, "next", e.Answer2(t, 2, st.Attempt, "done").Next, "", "turns", len(suite.Must(e.S.TurnsOf(e.Ctx, t.ThreadID))(e)), 1)
	}},
	{Name: "a steered message after the last model call gets a turn of its own", Turn: func(e *suite.Env, t memory.Turn) {
		e.Reply(t, 1, "final")
		e.Send("s1", "m2")
		r := e.Steer("s1", "m3")
		e.Close(suite.Completed(t, 1))
		queued := e.Turn(e.Thread(t.ThreadID).OpenTurnID)
		suite.Equals(e, "it joins no other one", e.Steered(queued, 1), 0, "message", queued.MessageID, "m2")
		suite.Equal(e, "next", e.Answer(queued, 1, "to m2").Next, r.TurnID)
	}},
	{Name: "counters equal the rows, the context window is the last call's", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 2)
		for _, c := range calls {
			e.RunTool(c, "ok")
		}
		e.SaveRound(t, 1)
		r := suite.Record(t, 2, e.Begin(t, 2), "final")
		r.Reply.Usage = agent.Usage{PromptTokens: 40, CompletionTokens: 2, TotalTokens: 42, Price: 0.5}
		suite.Must(e.S.SaveReply(e.Ctx, r))(e)
		e.Close(suite.Completed(t, 2))
		th := e.Thread(t.ThreadID)
		suite.Equals(e, "messages", th.MessageCount, int64(5), "tool calls", th.ToolCallCount, int64(2), "requests", th.RequestCount, int64(2))
		suite.Equals(e, "tokens", [3]int64{th.TotalTokens, th.PromptTokens, th.CompletionTokens}, [3]int64{57, 50, 7}, "price", th.TotalPrice, 0.75)
		suite.Equals(e, "window", th.ContextWindow, agent.ContextWindow{Prompt: 40, Completion: 2, Total: 42}, "steps", e.Turn(t.ID).Steps, 2)
	}},
	{Name: "a reply of any size and any text is kept", Turn: func(e *suite.Env, t memory.Turn) {
		text := strings.Repeat("0123456789", 300_000) + "é\u0001🙂"
		e.Answer(t, 1, text)
		suite.Equal(e, "answer", e.Messages(t.ThreadID)[1].Content.String() == text, true)
	}},
}

var summaryRules = []suite.Rule{
	{Name: "a summary is stored once, with its event and its cost; messages stay", Turn: func(e *suite.Env, t memory.Turn) {
		e.FullRound(t, 1, 2)
		before := e.Thread(t.ThreadID)
		all := e.Messages(t.ThreadID)
		first := e.Summarise(t, 2, 1, 4, "what was said")
		suite.Equal(e, "last message", first.LastSeq, int64(4))
		th := e.Thread(t.ThreadID)
		suite.Equals(e, "compactions", th.Compactions, int64(1), "summarizedFrom", th.SummarizedFrom, agent.MessageRange(t.ThreadID, 1, 4))
		suite.Equals(e, "tokens", th.TotalTokens-before.TotalTokens, int64(35), "price", th.TotalPrice-before.TotalPrice, 0.5)
		suite.Equals(e, "requests", th.RequestCount-before.RequestCount, int64(1), "turn's tokens", e.Turn(t.ID).Usage.TotalTokens, th.TotalTokens)
		suite.Equals(e, "spent", suite.Must(e.S.Spent(e.Ctx, t.ThreadID))(e).Tokens, th.TotalTokens, "messages", e.Messages(t.ThreadID), all)
		events := e.Events(t.ThreadID)
		last := events[len(events)-1]
		suite.Equal(e, "event", [2]string{last.Type, string(last.Data)}, [2]string{agent.EventContextSummary, `{"replacesFrom":1,"replacesTo":4,"summary":"what was said"}`})
		e.Unchanged(t.ThreadID, func() {
			start := suite.Must(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 2)))(e)
			suite.Equal(e, "stored", *start.Stored, first)
			suite.Equal(e, "again", suite.Must(e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 2, 1, 1, 4, "another")))(e), first)
		})
		suite.Equal(e, "summaries", suite.Must(e.S.Summaries(e.Ctx, t.ThreadID))(e), []memory.Summary{first})
	}},
	{Name: "a new attempt at a summary makes the one before stale; five lost ones are the limit", Turn: func(e *suite.Env, t memory.Turn) {
		e.FullRound(t, 1, 1)
		for i := 1; i <= 5; i++ {
			suite.Equal(e, "attempt", suite.Must(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, i)))(e).Attempt, i)
		}
		suite.Fails(e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 2, 4, 1, 2, "late")))(e, agent.CodeStale)
		suite.Fails(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 4)))(e, agent.CodeStale)
		suite.Fails(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 6)))(e, agent.CodeLimit)
	}},
	{Name: "a failed attempt at a summary is paid for, and another may follow", Turn: func(e *suite.Env, t memory.Turn) {
		e.FullRound(t, 1, 1)
		before := e.Thread(t.ThreadID)
		suite.Must(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 1)))(e)
		fail := memory.SummaryFailure{ThreadID: t.ThreadID, TurnID: t.ID, Step: 2, Cause: memory.CauseFull, Attempt: 1, Usage: agent.Usage{PromptTokens: 7, TotalTokens: 7, Requests: 1}}
		e.Ok(e.S.FailSummary(e.Ctx, fail))
		e.Unchanged(t.ThreadID, func() { e.Ok(e.S.FailSummary(e.Ctx, fail)) })
		suite.Equal(e, "tokens", e.Thread(t.ThreadID).TotalTokens-before.TotalTokens, int64(7))
		suite.Fails(e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 2, 1, 1, 2, "late")))(e, agent.CodeStale)
		suite.Equal(e, "attempt", suite.Must(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 2, 2)))(e).Attempt, 2)
		suite.Must(e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 2, 2, 1, 2, "text")))(e)
	}},
	{Name: "a summary replaces messages that are there, and never fewer than the one before", Turn: func(e *suite.Env, t memory.Turn) {
		e.FullRound(t, 1, 2)
		e.Summarise(t, 2, 1, 4, "one")
		for _, to := range []int64{3, 9} {
			start := suite.Must(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 3, int(to))))(e)
			suite.Fails(e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 3, start.Attempt, 1, to, "wrong")))(e, agent.CodeInvalid)
		}
	}},
	{Name: "no summary is made for a turn that is closed or is to be cancelled", Turn: func(e *suite.Env, t memory.Turn) {
		start := suite.Must(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 1, 1)))(e)
		suite.Must(e.S.RequestCancel(e.Ctx, memory.CancelRequest{ThreadID: t.ThreadID}))(e)
		suite.Fails(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, 1, 2)))(e, agent.CodeConflict, agent.CodeStale)
		suite.Must(e.S.CloseTurn(e.Ctx, memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCancelled, Step: 1, Reason: agent.ReasonCancelled, Code: "cancelled"}))(e)
		suite.Fails(e.S.SaveSummary(e.Ctx, suite.SummaryRecord(t, 1, start.Attempt, 1, 1, "late")))(e, agent.CodeStale)
	}},
	{Name: "warnings and the model that takes over are stored with the failed attempt", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Begin(t, 1)
		f := suite.Failure(t, 1, a)
		f.NotCalled, f.Usage, f.Fallback = true, agent.Usage{}, "other"
		f.Warnings = []agent.Warning{{Code: agent.WarnFallback, Message: "other goes on"}}
		e.Ok(e.S.FailModel(e.Ctx, f))
		suite.Equal(e, "requests", e.Thread(t.ThreadID).RequestCount, int64(0))
		events := e.Events(t.ThreadID)
		last := events[len(events)-1]
		suite.Equal(e, "event", [2]string{last.Type, string(last.Data)}, [2]string{agent.EventWarning, `{"code":"model_fallback","message":"other goes on"}`})
		b := e.ModelBegin(t, 1)
		b.Fence.Number = 2
		start := suite.Must(e.S.BeginModel(e.Ctx, b))(e)
		suite.Equal(e, "start", [3]string{start.Turn.Fallback, start.LastCode, start.LastErr}, [3]string{"other", f.Code, f.Message})
	}},
	{Name: "a model that takes no images is kept with its thread, and with a fork of that", Turn: func(e *suite.Env, t memory.Turn) {
		for _, model := range []string{"one", "two/b:c@d", "one"} {
			f := suite.Failure(t, 1, e.Begin(t, 1))
			f.NoImages = model
			e.Ok(e.S.FailModel(e.Ctx, f))
		}
		models := []string{"one", "two/b:c@d"}
		start := suite.Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))(e)
		suite.Equal(e, "models", start.Thread.NoImages, models)
		r := suite.Record(t, 1, start.Attempt, "done")
		suite.Must(e.S.SaveReply(e.Ctx, r))(e)
		e.Close(suite.Completed(t, 1))
		suite.Equal(e, "of a fork", e.Thread(e.Fork(t.ThreadID, "", "f1").ThreadID).NoImages, models)
		b := e.SummaryBegin(e.Take(e.Send("s1", "m2").ThreadID), 1, 1)
		b.Cause = "other"
		suite.Fails(e.S.BeginSummary(e.Ctx, b))(e, agent.CodeInvalid)
	}},
}

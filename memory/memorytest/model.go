package memorytest

import (
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func chunk(t memory.Turn, step, attempt, offset int, text string) memory.Chunk {
	return memory.Chunk{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: attempt, Offset: offset, Text: text}
}

func failure(t memory.Turn, step, attempt int) memory.ModelFailure {
	return memory.ModelFailure{
		ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: attempt, Code: agent.ModelBrokenStream,
		Message: "the stream broke", Usage: agent.Usage{PromptTokens: 10, TotalTokens: 10}, Duration: time.Second,
	}
}

func (e *env) stream(threadID string) string {
	e.Helper()
	s := must[*memory.Streamed](e)(e.s.Stream(e.ctx, threadID))
	if s == nil {
		return "<nil>"
	}
	return s.Text
}

var modelRules = []rule{
	{"a new attempt makes the one before stale", func(e *env) {
		t := e.started("s1")
		b := e.modelBegin(t, 1)
		first := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b)).Attempt
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, first, 0, "abc")))
		b.Fence.Number = 2
		second := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b)).Attempt
		equal(e, "attempt", second, first+1)
		e.unchanged(t.ThreadID, func() {
			e.stale(e.s.AppendChunk(e.ctx, chunk(t, 1, first, 3, "def")))
			e.stale(e.s.FailModel(e.ctx, failure(t, 1, first)))
			_, err := e.s.SaveReply(e.ctx, record(t, 1, first, "late"))
			e.stale(err)
		})
		e.answer2(t, 1, second, "good")
		equal(e, "answer", e.turn(t.ID).Answer, "good")
		e.sound(t.ThreadID)
	}},
	{"a lower number never becomes current after a higher one of its scope", func(e *env) {
		t := e.started("s1")
		b := e.modelBegin(t, 1)
		b.Fence.Number = 3
		a := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b)).Attempt
		e.unchanged(t.ThreadID, func() {
			for _, n := range []int{1, 2} {
				b.Fence.Number = n
				_, err := e.s.BeginModel(e.ctx, b)
				e.stale(err)
			}
		})
		other := e.begin(t, 1)
		equal(e, "attempt of another scope", other, a+1)
		b.Fence.Number = 2
		_, err := e.s.BeginModel(e.ctx, b)
		e.stale(err)
		e.answer2(t, 1, other, "good")
	}},
	{"a stored reply is returned and the model is not called again", func(e *env) {
		t := e.started("s1")
		stored := e.reply(t, 1, "thinking", lookup(1), lookup(2))
		e.unchanged(t.ThreadID, func() {
			st := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 1)))
			if st.Stored == nil {
				e.Fatalf("the stored reply was not returned")
			}
			equal(e, "reply", st.Stored.Reply.Content, "thinking")
			equal(e, "calls", st.Stored.Calls, stored.Calls)
		})
	}},
	{"calls get our ids even where the provider repeats its own", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 3)
		for i, c := range calls {
			equal(e, "id", c.ID, agent.CallID(t.ID, 1, i))
			equal(e, "place", [3]any{c.TurnID, c.Step, c.Index}, [3]any{t.ID, 1, i})
			equal(e, "tool", [2]string{c.ToolName, string(c.Args)}, [2]string{"lookup", fmt.Sprintf(`{"query":"q%d"}`, i)})
			equal(e, "status", c.Status, agent.CallPending)
			e.runTool(c, "ok")
		}
		e.saveRound(t, 1)
		second := e.calls(t, 2, 1)
		equal(e, "id of step 2", second[0].ID, agent.CallID(t.ID, 2, 0))
	}},
	{"streamed text is kept by byte offset, a piece that is there is ignored", func(e *env) {
		t := e.started("s1")
		a := e.begin(t, 1)
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, a, 0, "héllo")))
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, a, 0, "héllo")))
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, a, 6, " world")))
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, a, 0, "héllo")))
		equal(e, "text", e.stream(t.ThreadID), "héllo world")
		c := chunk(t, 1, a, 12, "")
		c.Reasoning = "because"
		e.ok(e.s.AppendChunk(e.ctx, c))
		e.ok(e.s.AppendChunk(e.ctx, c))
		s := must[*memory.Streamed](e)(e.s.Stream(e.ctx, t.ThreadID))
		equal(e, "stream", *s, memory.Streamed{
			MessageID: agent.MessageID(t.ID, 1), TurnID: t.ID, Step: 1, Attempt: a, Text: "héllo world", Reasoning: "because",
		})
		equal(e, "chunks are not in the log", e.types(t.ThreadID), []string{agent.EventMessageStarted})
	}},
	{"a failed attempt keeps its text until the next begins, and its cost", func(e *env) {
		t := e.started("s1")
		a := e.begin(t, 1)
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, a, 0, "half")))
		e.ok(e.s.FailModel(e.ctx, failure(t, 1, a)))
		e.unchanged(t.ThreadID, func() { e.ok(e.s.FailModel(e.ctx, failure(t, 1, a))) })
		equal(e, "text", e.stream(t.ThreadID), "half")
		equal(e, "usage", e.turn(t.ID).Usage.TotalTokens, int64(10))
		b := e.begin(t, 1)
		equal(e, "attempt", b, a+1)
		if s := e.stream(t.ThreadID); s != "" && s != "<nil>" {
			e.Fatalf("a new attempt shows %q of the one before", s)
		}
		e.answer2(t, 1, b, "good")
		equal(e, "usage", e.turn(t.ID).Usage.TotalTokens, int64(25))
		steps := must[[]memory.Step](e)(e.s.Steps(e.ctx, t.ID))
		equal(e, "steps", len(steps), 1)
		equal(e, "attempts, failed", [2]int{steps[0].Attempt, steps[0].Failed}, [2]int{b, 1})
		e.sound(t.ThreadID)
	}},
	{"attempts that failed in a recorded way do not count as lost", func(e *env) {
		t := e.started("s1")
		for range 8 {
			a := e.begin(t, 1)
			e.ok(e.s.FailModel(e.ctx, failure(t, 1, a)))
		}
		e.answer(t, 1, "at last")
		e.sound(t.ThreadID)
	}},
	{"a steered message goes into the running turn before its next model call, once", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 1)
		r := e.steer("s1", "m2")
		equal(e, "state", r.State, memory.EntryWaiting)
		e.runTool(calls[0], "one")
		e.saveRound(t, 1)
		b := e.modelBegin(t, 2)
		st := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
		equal(e, "steered", st.Steered, 1)
		e.unchanged(t.ThreadID, func() { must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b)) })
		b.Fence.Number = 2
		st = must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), 4)
		equal(e, "steered message", [3]string{string(ms[3].Role), ms[3].Source, ms[3].Content.String()}, [3]string{"user", "steer", "text of m2"})
		en := e.entry(t.ThreadID, memory.EntryMessage, "m2")
		equal(e, "entry", [2]string{string(en.State), en.TakenBy}, [2]string{"taken", t.ID})
		equal(e, "next", e.answer2(t, 2, st.Attempt, "done").Next, "")
		equal(e, "turns", len(must[[]memory.Turn](e)(e.s.TurnsOf(e.ctx, t.ThreadID))), 1)
		e.sound(t.ThreadID)
	}},
	{"a steered message after the last model call gets a turn of its own", func(e *env) {
		t := e.started("s1")
		e.reply(t, 1, "final")
		r := e.steer("s1", "m2")
		equal(e, "next", e.close(completed(t, 1)).Next, r.TurnID)
		e.sound(t.ThreadID)
	}},
	{"counters equal the rows, the context window is the last call's", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 2)
		for _, c := range calls {
			e.runTool(c, "ok")
		}
		e.saveRound(t, 1)
		r := record(t, 2, e.begin(t, 2), "final")
		r.Reply.Usage = agent.Usage{PromptTokens: 40, CompletionTokens: 2, TotalTokens: 42, Price: 0.5}
		must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, r))
		e.close(completed(t, 2))
		th := e.thread(t.ThreadID)
		equal(e, "messages", th.MessageCount, int64(5))
		equal(e, "tool calls", th.ToolCallCount, int64(2))
		equal(e, "requests", th.RequestCount, int64(2))
		equal(e, "tokens", [3]int64{th.TotalTokens, th.PromptTokens, th.CompletionTokens}, [3]int64{57, 50, 7})
		equal(e, "price", th.TotalPrice, 0.75)
		equal(e, "window", th.ContextWindow, agent.ContextWindow{Prompt: 40, Completion: 2, Total: 42})
		equal(e, "steps", e.turn(t.ID).Steps, 2)
		e.sound(t.ThreadID)
	}},
	{"a reply of any size and any text is kept", func(e *env) {
		t := e.started("s1")
		text := strings.Repeat("0123456789", 300_000) + "é\u0001🙂"
		e.answer(t, 1, text)
		equal(e, "answer", e.messages(t.ThreadID)[1].Content.String() == text, true)
	}},
}

package memorytest

import (
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// stake prices an attempt at $1 per token of input and $2 of output.
func stake() *memory.Stake {
	return &memory.Stake{PromptTokens: 100, Price: agent.Price{Input: 1e6, Output: 2e6}}
}

// lostUse is what an attempt with that stake and a streamed text costs.
func lostUse(text string) agent.Usage {
	n := int64(agent.EstimateTokens(text))
	return agent.Usage{PromptTokens: 100, CompletionTokens: n, TotalTokens: 100 + n, Price: float64(100 + 2*n), Requests: 1, Estimated: true}
}

// staked begins an attempt and streams half a text.
func (e *env) staked(t memory.Turn) int {
	e.Helper()
	a := e.begin(t, 1)
	c := chunk(t, 1, a, 0, "half an ")
	c.Stake = stake()
	e.ok(e.s.AppendChunk(e.ctx, c))
	e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, a, len("half an "), "answer")))
	return a
}

// unmarked is a usage as turns have it: only messages say that some of it is estimated.
func unmarked(u agent.Usage) agent.Usage {
	u.Estimated = false
	return u
}

var accountRules = []rule{
	{"an attempt that its worker left in mid-stream is charged by its stake and its text, once", func(e *env) {
		t := e.started("s1")
		e.staked(t)
		equal(e, "while it runs", e.turn(t.ID).Usage, agent.Usage{})
		b := e.begin(t, 1)
		lost := lostUse("half an answer")
		equal(e, "lost", e.turn(t.ID).Usage, unmarked(lost))
		equal(e, "spent", e.spent(t.ThreadID).Tokens, lost.TotalTokens)
		e.answer2(t, 1, b, "good")
		all := lost.Add(usage())
		all.Requests = 2
		equal(e, "turn", e.turn(t.ID).Usage, unmarked(all))
		equal(e, "thread", e.thread(t.ThreadID).TotalTokens, all.TotalTokens)
		equal(e, "context window", e.thread(t.ThreadID).ContextWindow.Prompt, usage().PromptTokens)
		ms := e.messages(t.ThreadID)
		equal(e, "message", ms[len(ms)-1].Usage.TotalTokens, all.TotalTokens)
		equal(e, "estimated", ms[len(ms)-1].Usage.Estimated, true)
		e.sound(t.ThreadID)
	}},
	{"a turn that ends in mid-stream charges what was under way, and its partial message shows it", func(e *env) {
		for name, end := range map[string]func(memory.Turn) memory.CloseRequest{
			"cancelled":  func(t memory.Turn) memory.CloseRequest { return cancelled(t, 1) },
			"terminated": func(t memory.Turn) memory.CloseRequest { return failed(t, 1, agent.ReasonTerminated) },
		} {
			t := e.started(name)
			e.staked(t)
			e.close(end(t))
			lost := lostUse("half an answer")
			equal(e, "turn", e.turn(t.ID).Usage, unmarked(lost))
			ms := e.messages(t.ThreadID)
			equal(e, "message", *ms[len(ms)-1].Usage, lost)
			e.sound(t.ThreadID)
		}
	}},
	{"what a lost attempt made is taken to be no more than its model may make", func(e *env) {
		t := e.started("s1")
		a := e.begin(t, 1)
		text := "word " + strings.Repeat("word ", 1000)
		c := chunk(t, 1, a, 0, text)
		c.Stake = stake()
		c.Stake.MostOutput = 50
		e.ok(e.s.AppendChunk(e.ctx, c))
		e.begin(t, 1)
		equal(e, "tokens", e.spent(t.ThreadID).Tokens, int64(150))
	}},
	{"an attempt that reported its failure is charged with that alone, also when its turn is to be cancelled", func(e *env) {
		t := e.started("s1")
		a := e.staked(t)
		e.ok(e.s.FailModel(e.ctx, failure(t, 1, a)))
		e.close(cancelled(t, 1))
		use := failure(t, 1, a).Usage
		use.Requests = 1
		equal(e, "turn", e.turn(t.ID).Usage, use)
		ms := e.messages(t.ThreadID)
		equal(e, "message", *ms[len(ms)-1].Usage, use)
		e.stale(e.s.FailModel(e.ctx, failure(t, 1, a)))
	}},
	{"failures of one class in a row are counted, another end and another model begin anew", func(e *env) {
		t := e.started("s1")
		row := func(class agent.FailureClass, fallback string) [2]any {
			f := failure(t, 1, e.begin(t, 1))
			f.Class, f.Fallback = class, fallback
			e.ok(e.s.FailModel(e.ctx, f))
			start := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, 1)))
			e.ok(e.s.FailModel(e.ctx, failureAs(f, start.Attempt)))
			return [2]any{start.LastClass, start.InARow}
		}
		equal(e, "first", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 1})
		equal(e, "third", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 3})
		equal(e, "another", row("", ""), [2]any{agent.FailureClass(""), 1})
		equal(e, "again", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 1})
		equal(e, "another model", row(agent.ClassEmpty, "other"), [2]any{agent.ClassEmpty, 0})
	}},
}

// failureAs is a failure of another attempt, with the same model.
func failureAs(f memory.ModelFailure, attempt int) memory.ModelFailure {
	f.Attempt, f.Fallback = attempt, ""
	return f
}

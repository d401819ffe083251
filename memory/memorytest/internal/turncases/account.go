package turncases

import (
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

// lostUse is what an attempt with that stake and a streamed text costs.
func lostUse(text string) agent.Usage {
	n := int64(agent.EstimateTokens(text))
	return agent.Usage{PromptTokens: 100, CompletionTokens: n, TotalTokens: 100 + n, Price: float64(100 + 2*n), Requests: 1, Estimated: true}
}

// unmarked is a usage as turns have it: only messages say that some of it is estimated.
func unmarked(u agent.Usage) agent.Usage {
	u.Estimated = false
	return u
}

var accountRules = []suite.Rule{
	{Name: "an attempt that its worker left in mid-stream is charged by its stake and its text, once", Run: func(e *suite.Env) {
		t := e.Started("s1")
		e.Staked(t)
		suite.Equal(e, "while it runs", e.Turn(t.ID).Usage, agent.Usage{})
		b := e.Begin(t, 1)
		lost := lostUse("half an answer")
		suite.Equal(e, "lost", e.Turn(t.ID).Usage, unmarked(lost))
		suite.Equal(e, "spent", e.Spent(t.ThreadID).Tokens, lost.TotalTokens)
		e.Answer2(t, 1, b, "good")
		all := lost.Add(suite.Usage())
		all.Requests = 2
		suite.Equal(e, "turn", e.Turn(t.ID).Usage, unmarked(all))
		suite.Equal(e, "thread", e.Thread(t.ThreadID).TotalTokens, all.TotalTokens)
		suite.Equal(e, "context window", e.Thread(t.ThreadID).ContextWindow.Prompt, suite.Usage().PromptTokens)
		ms := e.Messages(t.ThreadID)
		suite.Equal(e, "message", ms[len(ms)-1].Usage.TotalTokens, all.TotalTokens)
		suite.Equal(e, "estimated", ms[len(ms)-1].Usage.Estimated, true)
		e.Sound(t.ThreadID)
	}},
	{Name: "a turn that ends in mid-stream charges what was under way, and its partial message shows it", Run: func(e *suite.Env) {
		for name, end := range map[string]func(memory.Turn) memory.CloseRequest{
			"cancelled":  func(t memory.Turn) memory.CloseRequest { return suite.Cancelled(t, 1) },
			"terminated": func(t memory.Turn) memory.CloseRequest { return suite.Failed(t, 1, agent.ReasonTerminated) },
		} {
			t := e.Started(name)
			e.Staked(t)
			e.Close(end(t))
			lost := lostUse("half an answer")
			suite.Equal(e, "turn", e.Turn(t.ID).Usage, unmarked(lost))
			ms := e.Messages(t.ThreadID)
			suite.Equal(e, "message", *ms[len(ms)-1].Usage, lost)
			e.Sound(t.ThreadID)
		}
	}},
	{Name: "what a lost attempt made is taken to be no more than its model may make", Run: func(e *suite.Env) {
		t := e.Started("s1")
		a := e.Begin(t, 1)
		text := "word " + strings.Repeat("word ", 1000)
		c := suite.Chunk(t, 1, a, 0, text)
		c.Stake = suite.Stake()
		c.Stake.MostOutput = 50
		e.Ok(e.S.AppendChunk(e.Ctx, c))
		e.Begin(t, 1)
		suite.Equal(e, "tokens", e.Spent(t.ThreadID).Tokens, int64(150))
	}},
	{Name: "an attempt that reported its failure is charged with that alone, also when its turn is to be cancelled", Run: func(e *suite.Env) {
		t := e.Started("s1")
		a := e.Staked(t)
		e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, a)))
		e.Close(suite.Cancelled(t, 1))
		use := suite.Failure(t, 1, a).Usage
		use.Requests = 1
		suite.Equal(e, "turn", e.Turn(t.ID).Usage, use)
		ms := e.Messages(t.ThreadID)
		suite.Equal(e, "message", *ms[len(ms)-1].Usage, use)
		e.Stale(e.S.FailModel(e.Ctx, suite.Failure(t, 1, a)))
	}},
	{Name: "failures of one class in a row are counted, another end and another model begin anew", Run: func(e *suite.Env) {
		t := e.Started("s1")
		row := func(class agent.FailureClass, fallback string) [2]any {
			f := suite.Failure(t, 1, e.Begin(t, 1))
			f.Class, f.Fallback = class, fallback
			e.Ok(e.S.FailModel(e.Ctx, f))
			start := suite.Must[memory.ModelStart](e)(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 1)))
			e.Ok(e.S.FailModel(e.Ctx, failureAs(f, start.Attempt)))
			return [2]any{start.LastClass, start.InARow}
		}
		suite.Equal(e, "first", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 1})
		suite.Equal(e, "third", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 3})
		suite.Equal(e, "another", row("", ""), [2]any{agent.FailureClass(""), 1})
		suite.Equal(e, "again", row(agent.ClassEmpty, ""), [2]any{agent.ClassEmpty, 1})
		suite.Equal(e, "another model", row(agent.ClassEmpty, "other"), [2]any{agent.ClassEmpty, 0})
	}},
}

// failureAs is a failure of another attempt, with the same model.
func failureAs(f memory.ModelFailure, attempt int) memory.ModelFailure {
	f.Attempt, f.Fallback = attempt, ""
	return f
}

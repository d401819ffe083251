// Package turncases has the rules of turns: messages, model calls, tools, budgets, losses, reads.
package turncases

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var turnRules = []suite.Rule{
	{Name: "taking an entry opens its turn and appends the user's message in one write", Run: func(e *suite.Env) {
		r := e.Send("s1", "m1")
		claim := suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: r.ThreadID, RunID: "run-1", Config: suite.MainConfig()}))(e)
		t, th, m, en := claim.Turn, e.Thread(r.ThreadID), e.Messages(r.ThreadID)[0], e.Inbox(r.ThreadID)[0]
		suite.Equal(e, "turn", [6]any{t.ID, t.EntryKind, t.MessageID, t.State, t.RunID, claim.Step}, [6]any{r.TurnID, memory.EntryMessage, "m1", memory.TurnOpen, "run-1", 1})
		suite.Equals(e, "claim's thread", claim.Thread.OpenTurnID, t.ID, "open turn", th.OpenTurnID, t.ID)
		suite.Equals(e, "status", th.Status, agent.ThreadRunning, "config", th.Config.SystemPrompt, "You answer.")
		e.Says(r.ThreadID, "user text of m1")
		if m.ID != "m1" && m.ID != agent.MessageID(t.ID, 0) {
			e.Errorf("the user's message has id %q", m.ID)
		}
		suite.Equals(e, "turn and seq", [2]any{m.TurnID, m.Seq}, [2]any{t.ID, int64(1)}, "entry", [2]any{en.State, en.TakenBy}, [2]any{memory.EntryTaken, t.ID})
		suite.Equal(e, "events", e.Types(r.ThreadID), []string{agent.EventMessageStarted})
	}},
	{Name: "an open turn without a saved step takes the template of the agent that its claim named", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "one")
		r := suite.Message("s1", "m2", "text of m2")
		r.Agent = "other"
		suite.Must(e.S.Send(e.Ctx, r))(e)
		e.Take(t.ThreadID) // still with the template of the agent before
		other := &agent.SpecialistAgentConfig{Name: "other", SystemPrompt: "You are another."}
		suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: t.ThreadID, RunID: "run-of-" + t.ThreadID, Config: other}))(e)
		th := e.Thread(t.ThreadID)
		suite.Equal(e, "agent", [2]string{th.AgentType, th.Config.SystemPrompt}, [2]string{"other", "You are another."})
	}},
	{Name: "a message to another agent takes nothing of the template of the one before", Turn: func(e *suite.Env, t memory.Turn) {
		r := suite.Message("s1", "m2", "text of m2")
		r.Agent = "other"
		suite.Must(e.S.Send(e.Ctx, r))(e)
		e.Answer(t, 1, "one")
		th := e.Thread(t.ThreadID)
		suite.Equal(e, "template", [2]string{th.Config.Name, th.Config.SystemPrompt}, [2]string{"other", ""})
	}},
	{Name: "claims at once open one turn", Run: func(e *suite.Env) {
		first := e.Send("s1", "m1")
		e.Send("s1", "m2")
		claims := make([]memory.Claim, 8)
		e.AtOnce(len(claims), func(i int) (err error) {
			claims[i], err = e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: "s1/default", RunID: "r"})
			return err
		})
		for _, c := range claims {
			suite.Equal(e, "turn", c.Turn.ID, first.TurnID)
		}
		e.Says("s1/default", "user text of m1")
	}},
	{Name: "a claim of a turn under way names the first step that is not saved", Turn: func(e *suite.Env, t memory.Turn) {
		step := func() int { return suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: t.ThreadID}))(e).Step }
		calls := e.Calls(t, 1, 1)
		suite.Equal(e, "before the round", step(), 1)
		e.RunTool(calls[0], "one")
		e.SaveRound(t, 1)
		suite.Equal(e, "after the round", step(), 2)
		e.Reply(t, 2, "final")
		suite.Equal(e, "answer not saved", step(), 2)
	}},
	{Name: "messages are taken in the order of arrival, one turn at a time", Run: func(e *suite.Env) {
		for _, id := range []string{"m1", "m2", "m3"} {
			e.Send("s1", id)
		}
		t := e.Take("s1/default")
		for _, id := range []string{"m1", "m2", "m3"} {
			suite.Equal(e, "message", t.MessageID, id)
			if next := e.Answer(t, 1, "answer to "+id).Next; next != "" {
				t = e.Turn(next)
			}
		}
		e.Says(t.ThreadID, "user text of m1", "assistant answer to m1", "user text of m2", "assistant answer to m2", "user text of m3", "assistant answer to m3")
	}},
	{Name: "every write of a closed turn is stale and changes nothing", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Begin(t, 1)
		e.Close(suite.Failed(t, 1, agent.ReasonError))
		e.StaleTurn(t, a)
	}},
	{Name: "every write of a turn that is not the open one is stale", Turn: func(e *suite.Env, t memory.Turn) {
		e.Send("s1", "m2")
		a := e.Begin(t, 1)
		next := e.Turn(e.Close(suite.Failed(t, 1, agent.ReasonError)).Next)
		b := e.Begin(next, 1)
		suite.Equal(e, "attempts look alike", a, b)
		e.StaleTurn(t, a)
		e.Answer2(next, 1, b, "second")
	}},
}

// failing are turns that fail, with what of them is kept.
var failing = []struct {
	name   string
	reason agent.Reason
	before func(e *suite.Env, t memory.Turn)
	says   []string // behind the user's message
	calls  []agent.CallStatus
}{
	{name: "failing keeps the text streamed so far once, as partial", reason: agent.ReasonTimeout, says: []string{"assistant half an ans (partial)"}, before: func(e *suite.Env, t memory.Turn) {
		first := e.Begin(t, 1)
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, first, 0, "first try")))
		e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, first)))
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, e.Begin(t, 1), 0, "half an ans")))
	}},
	{name: "failing before anything was streamed appends nothing", reason: agent.ReasonError, before: func(e *suite.Env, t memory.Turn) { e.Begin(t, 1) }},
	{name: "failing with a stored answer keeps its text", reason: agent.ReasonTimeout, says: []string{"assistant stored but not saved"},
		before: func(e *suite.Env, t memory.Turn) { e.Reply(t, 1, "stored but not saved") }},
	{name: "failing with a stored round keeps finished results and settles the rest", reason: agent.ReasonError,
		says:  []string{"assistant", "tool kept", "tool Tool execution aborted: the turn failed", "tool Tool execution aborted: the turn failed"},
		calls: []agent.CallStatus{agent.CallSuccess, agent.CallAborted, agent.CallAborted}, before: func(e *suite.Env, t memory.Turn) {
			calls := e.Calls(t, 1, 3)
			e.RunTool(calls[0], "kept")
			e.BeginTool(calls[1], false)
		}},
	{name: "reconcile closes as terminated: in flight and at most once is unknown, the rest aborted", reason: agent.ReasonTerminated,
		says:  []string{"assistant", "tool kept", "tool " + agent.TextUnknown, "tool " + lost, "tool " + lost},
		calls: []agent.CallStatus{agent.CallSuccess, agent.CallUnknown, agent.CallAborted, agent.CallAborted}, before: func(e *suite.Env, t memory.Turn) {
			calls := e.Calls(t, 1, 4)
			e.RunTool(calls[0], "kept")
			e.BeginTool(calls[1], false)
			e.BeginTool(calls[2], true)
		}},
}

const lost = "Tool execution aborted: the turn's workflow run was terminated from outside, or lost"

func failRules() (rules []suite.Rule) {
	for _, f := range failing {
		rules = append(rules, suite.Rule{Name: f.name, Turn: func(e *suite.Env, t memory.Turn) {
			f.before(e, t)
			e.Close(suite.Failed(t, 1, f.reason))
			e.Unchanged(t.ThreadID, func() { e.Close(suite.Failed(t, 1, f.reason)) })
			e.Says(t.ThreadID, append([]string{"user text of m1"}, f.says...)...)
			e.Ended(t, agent.ThreadFailed, f.reason)
			for i, want := range f.calls {
				call := e.Call(agent.CallID(t.ID, 1, i))
				suite.Equals(e, "call", call.Status, want, "aborted", call.ErrorReason == agent.ErrAborted, want == agent.CallAborted)
			}
			suite.Equals(e, "responses", len(e.EventsOf(t.ThreadID, agent.EventToolResponse)), len(f.calls), "errors", len(e.EventsOf(t.ThreadID, agent.EventError)), 1)
			types := e.Types(t.ThreadID)
			suite.Equals(e, "last event", types[len(types)-1], agent.EventError, "stream", e.Stream(t.ThreadID), "<nil>")
		}})
	}
	return rules
}

var closeRules = append(failRules(), []suite.Rule{
	{Name: "completing appends the stored answer, ends the turn and the thread, in one write", Turn: func(e *suite.Env, t memory.Turn) {
		e.Reply(t, 1, "the answer")
		c := e.Close(suite.Completed(t, 1))
		suite.Equal(e, "outcome and next", [2]any{c.Outcome, c.Next}, [2]any{agent.ThreadCompleted, ""})
		e.Says(t.ThreadID, "user text of m1", "assistant the answer")
		e.Ended(t, agent.ThreadCompleted, "")
		suite.Equals(e, "id", e.Messages(t.ThreadID)[1].ID, agent.MessageID(t.ID, 1), "answer", e.Turn(t.ID).Answer, "the answer", "stream", e.Stream(t.ThreadID), "<nil>")
		suite.Equal(e, "events", e.Types(t.ThreadID), []string{agent.EventMessageStarted, agent.EventAssistantMessage, agent.EventDone})
	}},
	{Name: "a close takes the next entry, and says so again however late it is repeated", Turn: func(e *suite.Env, t memory.Turn) {
		m2 := e.Send("s1", "m2")
		c := e.Answer(t, 1, "one")
		th := e.Thread(t.ThreadID)
		suite.Equals(e, "next", c.Next, m2.TurnID, "thread", [2]any{th.Status, th.OpenTurnID}, [2]any{agent.ThreadRunning, m2.TurnID})
		suite.Equals(e, "recorded", e.Turn(t.ID).NextTurn, m2.TurnID, "messages", len(e.Messages(t.ThreadID)), 3)
		e.Answer(e.Turn(c.Next), 1, "two")
		e.Unchanged(t.ThreadID, func() { suite.Equal(e, "next", e.Close(suite.Completed(t, 1)).Next, m2.TurnID) })
	}},
	{Name: "a close snapshots the configuration for the turn it takes", Turn: func(e *suite.Env, t memory.Turn) {
		e.Send("s1", "m2")
		e.Reply(t, 1, "one")
		r := suite.Completed(t, 1)
		r.NextConfig = &agent.SpecialistAgentConfig{Name: "orchestrator", SystemPrompt: "New words."}
		e.Close(r)
		suite.Equal(e, "prompt", e.Thread(t.ThreadID).Config.SystemPrompt, "New words.")
	}},
	{Name: "an empty answer is an answer", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "")
		e.Says(t.ThreadID, "user text of m1", "assistant")
		e.Ended(t, agent.ThreadCompleted, "")
	}},
}...)

// Groups are the cases by subject.
var Groups = []suite.Group{
	{Name: "send", Rules: sendRules},
	{Name: "turn", Rules: turnRules},
	{Name: "close", Rules: closeRules},
	{Name: "model", Rules: modelRules},
	{Name: "summary", Rules: summaryRules},
	{Name: "wait", Rules: waitRules},
	{Name: "tool", Rules: toolRules},
	{Name: "round", Rules: roundRules},
	{Name: "budget", Rules: budgetRules},
	{Name: "waited", Rules: waitedRules},
	{Name: "account", Rules: accountRules},
	{Name: "losses", Rules: lossRules},
	{Name: "retry", Rules: retryRules},
	{Name: "keeper", Rules: keeperRules},
	{Name: "read", Rules: readRules},
	{Name: "window", Rules: windowRules},
	{Name: "event", Rules: eventRules},
	{Name: "edge", Rules: edgeRules},
	{Name: "lives", Rules: livesRules},
}

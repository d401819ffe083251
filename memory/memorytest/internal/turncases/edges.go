package turncases

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

// edgeRules are the corners of several operations.
var edgeRules = []suite.Rule{
	{Name: "a conversation without a name is the default one", Run: func(e *suite.Env) {
		r := suite.Message("s1", "m1", "hi")
		r.ConversationID = ""
		suite.Equal(e, "thread", suite.Must(e.S.Send(e.Ctx, r))(e).ThreadID, "s1/default")
	}},
	{Name: "a message without an id, or with a choice that does not exist, is refused", Run: func(e *suite.Env) {
		for _, change := range []func(*memory.SendRequest){
			func(r *memory.SendRequest) { r.MessageID = "" },
			func(r *memory.SendRequest) { r.MessageID = "a\x00b" },
			func(r *memory.SendRequest) { r.WhenBusy = "later" },
		} {
			r := suite.Message("s1", "m1", "hi")
			change(&r)
			suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeInvalid)
		}
		suite.Equal(e, "threads", len(e.Threads(memory.ThreadFilter{All: true})), 0)
	}},
	{Name: "a message that makes no choice is refused while an approval is open, a queued one is taken", Turn: func(e *suite.Env, t memory.Turn) {
		e.Gated(t, 1, agent.GateAsk)
		e.Ask(t, 1)
		r := suite.Message("s1", "m2", "hi")
		r.WhenBusy = ""
		e.Unchanged(t.ThreadID, func() {
			suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeConflict)
		})
		suite.Equal(e, "state", e.Send("s1", "m3").State, memory.EntryWaiting)
	}},
	{Name: "a sub-agent takes neither messages nor retries from people", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		e.Answer(child, 1, "the finding")
		e.Unchanged(t.ThreadID, func() {
			suite.Fails(e.S.Send(e.Ctx, memory.SendRequest{UserID: suite.User, ThreadID: child.ThreadID, MessageID: "m1", Content: agent.Text("hi"), WhenBusy: memory.Queue}))(e, agent.CodeInvalid, agent.CodeConflict, agent.CodeNotFound)
			suite.Fails(e.S.Retry(e.Ctx, memory.RetryRequest{UserID: suite.User, ThreadID: child.ThreadID, RequestID: "r1"}))(e, agent.CodeInvalid, agent.CodeConflict, agent.CodeNotFound)
		})
	}},
	{Name: "the model that a sender chose stays until another is chosen", Run: func(e *suite.Env) {
		r := suite.Message("s1", "m1", "hi")
		r.Model = "big"
		t := e.Take(suite.Must(e.S.Send(e.Ctx, r))(e).ThreadID)
		suite.Equal(e, "model", e.Thread(t.ThreadID).Config.Model, "big")
		e.Answer(t, 1, "done")
		e.Send("s1", "m2")
		t = e.Take(t.ThreadID)
		suite.Equal(e, "kept", e.Thread(t.ThreadID).Config.Model, "big")
		e.Answer(t, 1, "done")
		r.MessageID, r.Model = "m3", "small"
		suite.Must(e.S.Send(e.Ctx, r))(e)
		e.Take(t.ThreadID)
		suite.Equal(e, "changed", e.Thread(t.ThreadID).Config.Model, "small")
	}},
	{Name: "the working directory of a claim replaces the main thread's, but not in the middle of a turn", Run: func(e *suite.Env) {
		thread := e.Send("s1", "m1").ThreadID
		take := func(workdir string) memory.Turn {
			claim := suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: thread, RunID: "run", Workdir: workdir}))(e)
			if claim.Turn == nil {
				return memory.Turn{}
			}
			return *claim.Turn
		}
		t := take("/allowed")
		suite.Equal(e, "workdir", e.Thread(thread).Workdir, "/allowed")
		e.Calls(t, 1, 1)
		take("/elsewhere")
		suite.Equal(e, "in the middle", e.Thread(thread).Workdir, "/allowed")
		e.Close(suite.Cancelled(t, 1))
		take("/elsewhere")
		suite.Equal(e, "without a turn", e.Thread(thread).Workdir, "/allowed")
		e.Send("s1", "m2")
		take("/elsewhere")
		suite.Equal(e, "the next turn", e.Thread(thread).Workdir, "/elsewhere")
	}},
	{Name: "a turn completes only with a stored reply, and ends in a final state only", Turn: func(e *suite.Env, t memory.Turn) {
		e.Unchanged(t.ThreadID, func() {
			if _, err := e.S.CloseTurn(e.Ctx, suite.Completed(t, 1)); err == nil {
				e.Fatalf("a turn completed without an answer")
			}
			r := suite.Completed(t, 1)
			r.Outcome = agent.ThreadRunning
			suite.Fails(e.S.CloseTurn(e.Ctx, r))(e, agent.CodeInvalid)
			r = suite.Failed(t, 1, agent.ReasonError)
			r.TurnID = agent.TurnID(t.ThreadID, "other", 0)
			suite.Fails(e.S.CloseTurn(e.Ctx, r))(e, agent.CodeNotFound, agent.CodeStale)
		})
		other := e.Started("s2")
		e.Unchanged(t.ThreadID, func() {
			r := suite.Failed(t, 1, agent.ReasonError)
			r.ThreadID = other.ThreadID
			suite.Fails(e.S.CloseTurn(e.Ctx, r))(e, agent.CodeNotFound, agent.CodeStale, agent.CodeInvalid)
		})
	}},
	{Name: "a background end that a sub-agent did not read before its turn closed is not lost", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		grand := e.Background(child, 1, "general")
		e.SaveRound(child, 1)
		e.Reply(child, 2, "I have a helper")
		g := e.Take(grand.ChildThread)
		e.Answer(g, 1, "deep finding")
		e.Close(suite.Completed(child, 2))
		e.Taken(t, 1)
		e.Sound(t.ThreadID)
		// It waits where somebody takes it: above, or as the sub-agent's next turn.
		steered := e.Steered(t, 2)
		claim := suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: child.ThreadID}))(e)
		if (steered == 1) == (claim.Turn != nil) {
			e.Errorf("steered above: %d, taken by the sub-agent: %v", steered, claim.Turn != nil)
		}
	}},
	{Name: "a delegation is opened, not run, and no other call is opened", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Reply(t, 1, "", suite.Assign(0), suite.Lookup(1)).Calls
		e.Unchanged(t.ThreadID, func() {
			suite.Fails(e.S.OpenDelegation(e.Ctx, suite.Delegation(calls[1], "researcher")))(e, agent.CodeConflict, agent.CodeInvalid)
			suite.Fails(e.S.TakeChildResult(e.Ctx, suite.ChildResult(calls[0])))(e, agent.CodeConflict, agent.CodeInvalid, agent.CodeNotFound)
		})
	}},
	{Name: "a call with a cancelled context happens as a whole or not at all", Turn: func(e *suite.Env, t memory.Turn) {
		ctx, cancel := context.WithCancel(e.Ctx)
		cancel()
		before := e.State(t.ThreadID)
		if _, err := e.S.Send(ctx, suite.Message("s1", "m2", "hi")); err != nil {
			suite.Equal(e, "state", e.State(t.ThreadID), before)
		} else {
			suite.Equal(e, "entry", e.Entry(t.ThreadID, memory.EntryMessage, "m2").State, memory.EntryWaiting)
		}
	}},
}

package turncases

import (
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var retryRules = []suite.Rule{
	{Name: "a retry is a new turn without a second user message, and its answer replaces the old one", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "first answer")
		r := e.Retry(t.ThreadID, "r1")
		suite.Equal(e, "idle", r.Idle, true)
		if r.TurnID == t.ID {
			e.Fatalf("the retry has the turn of the message")
		}
		again := e.Take(t.ThreadID)
		suite.Equal(e, "turn", [3]string{again.ID, string(again.EntryKind), again.RetryOf}, [3]string{r.TurnID, "retry", t.ID})
		e.Answer(again, 1, "second answer")
		ms := e.Messages(t.ThreadID)
		suite.Equal(e, "messages", len(ms), 3)
		suite.Equal(e, "superseded", [2]string{ms[1].Content.String(), ms[1].SupersededBy}, [2]string{"first answer", again.ID})
		suite.Equal(e, "answer", [2]string{ms[2].Content.String(), ms[2].SupersededBy}, [2]string{"second answer", ""})
	}},
	{Name: "the same request id is one retry", Turn: func(e *suite.Env, t memory.Turn) {
		e.Close(suite.Failed(t, 1, agent.ReasonError))
		first := e.Retry(t.ThreadID, "r1")
		e.Unchanged(t.ThreadID, func() {
			again := e.Retry(t.ThreadID, "r1")
			suite.Equal(e, "turn", [2]any{again.TurnID, again.Repeated}, [2]any{first.TurnID, true})
		})
		e.Answer(e.Take(t.ThreadID), 1, "fine")
		e.Unchanged(t.ThreadID, func() { suite.Equal(e, "turn", e.Retry(t.ThreadID, "r1").TurnID, first.TurnID) })
	}},
	{Name: "three retries leave one user message and one answer that counts", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "answer 0")
		turns := map[string]bool{t.ID: true}
		for i := 1; i <= 3; i++ {
			e.Retry(t.ThreadID, fmt.Sprintf("r%d", i))
			again := e.Take(t.ThreadID)
			turns[again.ID] = true
			e.Answer(again, 1, fmt.Sprintf("answer %d", i))
		}
		suite.Equal(e, "turns", len(turns), 4)
		users, current := 0, 0
		for _, m := range e.Messages(t.ThreadID) {
			if m.Role == agent.RoleUser {
				users++
			} else if m.SupersededBy == "" {
				current++
			}
		}
		suite.Equal(e, "user messages, current answers", [2]int{users, current}, [2]int{1, 1})
	}},
	{Name: "a retry keeps finished rounds and replaces partial text", Turn: func(e *suite.Env, t memory.Turn) {
		e.Step(t, 1, "kept")
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 2, e.Begin(t, 2), 0, "half")))
		e.Close(suite.Failed(t, 2, agent.ReasonError))
		e.Retry(t.ThreadID, "r1")
		again := e.Take(t.ThreadID)
		e.Answer(again, 1, "whole")
		ms := e.Messages(t.ThreadID)
		suite.Equals(e, "messages", len(ms), 5, "round", [2]string{ms[2].Content.String(), ms[2].SupersededBy}, [2]string{"kept", ""})
		suite.Equal(e, "partial", [3]any{ms[3].Content.String(), ms[3].Partial, ms[3].SupersededBy}, [3]any{"half", true, again.ID})
	}},
	{Name: "there is nothing to retry before the first turn, in no thread, or for another user", Run: func(e *suite.Env) {
		r := e.Send("s1", "m1")
		e.Unchanged(r.ThreadID, func() {
			suite.Fails(e.S.Retry(e.Ctx, memory.RetryRequest{UserID: suite.User, ThreadID: r.ThreadID, RequestID: "r1"}))(e, agent.CodeConflict, agent.CodeInvalid, agent.CodeNotFound)
			suite.Fails(e.S.Retry(e.Ctx, memory.RetryRequest{UserID: suite.OtherUser, ThreadID: r.ThreadID, RequestID: "r1"}))(e, agent.CodeNotFound)
			suite.Fails(e.S.Retry(e.Ctx, memory.RetryRequest{UserID: suite.User, ThreadID: "none/default", RequestID: "r1"}))(e, agent.CodeNotFound)
		})
	}},
}

var keeperRules = []suite.Rule{
	{Name: "what is left undone is overdue when it is older than the age, not before, until somebody does it", Run: func(e *suite.Env) {
		for name, left := range map[string]func(t memory.Turn) (want memory.Overdue, done func()){
			"an entry of an idle thread": func(t memory.Turn) (memory.Overdue, func()) {
				e.Answer(t, 1, "done")
				e.Send(strings.TrimSuffix(t.ThreadID, "/default"), "m2")
				return memory.Overdue{ThreadID: t.ThreadID, Kind: agent.KindMain, Idle: true}, func() { e.Take(t.ThreadID) }
			},
			"a cancel": func(t memory.Turn) (memory.Overdue, func()) {
				e.RequestCancel(suite.CancelOf(t))
				return memory.Overdue{ThreadID: t.ThreadID, Kind: agent.KindMain, CancelTurn: t.ID}, func() { e.Close(suite.Cancelled(t, 1)) }
			},
			"the end of a background child": func(t memory.Turn) (memory.Overdue, func()) {
				d := e.Background(t, 1, "researcher")
				e.SaveRound(t, 1)
				e.Answer(t, 2, "done")
				e.Answer(e.Take(d.ChildThread), 1, "the finding")
				return memory.Overdue{ThreadID: t.ThreadID, Kind: agent.KindMain, Idle: true}, func() { e.Take(t.ThreadID) }
			},
			"the end of a foreground child": func(t memory.Turn) (memory.Overdue, func()) {
				e.Answer(e.Child(t, 1), 1, "the finding")
				return memory.Overdue{ThreadID: t.ThreadID, Kind: agent.KindMain}, func() { e.TakeResult(e.FirstCall(t, 1)) }
			},
			"work for a sub-agent, which its delegator starts": func(t memory.Turn) (memory.Overdue, func()) {
				d := e.Delegate(t, 1, "researcher")
				return memory.Overdue{ThreadID: d.ChildThread, Kind: agent.KindSubAgent, Idle: true, Delegator: t.ThreadID}, func() { e.Take(d.ChildThread) }
			},
			"background work, which the keeper starts": func(t memory.Turn) (memory.Overdue, func()) {
				d := e.Background(t, 1, "researcher")
				return memory.Overdue{ThreadID: d.ChildThread, Kind: agent.KindSubAgent, Idle: true}, func() { e.Take(d.ChildThread) }
			},
		} {
			want, done := left(e.Started("s-" + strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")))
			e.H.Clock.Advance(time.Second)
			_, early := e.Overdue(2 * time.Second)[want.ThreadID]
			suite.Equal(e, name+" after a second", early, false)
			e.H.Clock.Advance(2 * time.Second)
			got, late := e.Overdue(2 * time.Second)[want.ThreadID]
			suite.Equal(e, name+" after three", late, true)
			suite.Equal(e, name, [4]any{got.Kind, got.Idle, got.Delegator, got.CancelTurn}, [4]any{want.Kind, want.Idle, want.Delegator, want.CancelTurn})
			done()
			_, still := e.Overdue(2 * time.Second)[want.ThreadID]
			suite.Equal(e, name+" done", still, false)
		}
	}},
	{Name: "a thread whose turn is open is not overdue however much waits", Turn: func(e *suite.Env, t memory.Turn) {
		e.Send("s1", "m2")
		e.H.Clock.Advance(time.Hour)
		suite.Equal(e, "overdue", len(e.Overdue(2*time.Second)), 0)
		e.Answer(t, 1, "done")
		suite.Equal(e, "overdue", len(e.Overdue(2*time.Second)), 0)
	}},
	{Name: "a turn that fails or is terminated keeps the ends of children that nobody has taken yet, and none waits", Run: func(e *suite.Env) {
		for _, reason := range []agent.Reason{agent.ReasonTerminated, agent.ReasonError} {
			t := e.Started(string(reason))
			d := e.Delegate(t, 1, "researcher")
			e.Answer(e.Take(d.ChildThread), 1, "the finding")
			e.Close(suite.Failed(t, 1, reason))
			suite.Equal(e, "call", e.Call(e.FirstCall(t, 1).ID).Status, agent.CallSuccess)
			suite.Contains(e, "result", e.Messages(t.ThreadID)[2].Content.String(), "the finding")
			for _, en := range e.Inbox(t.ThreadID) {
				suite.Equal(e, en.ID+" waits", en.State == memory.EntryWaiting, false)
			}
			e.Idle(t.ThreadID)
			e.Sound(t.ThreadID)
		}
	}},
	{Name: "a decided approval is overdue until its calls run or its round is saved", Turn: func(e *suite.Env, t memory.Turn) {
		call := e.Gated(t, 1, agent.GateAsk)[0]
		a := e.Ask(t, 1)
		e.H.Clock.Advance(time.Hour)
		suite.Equal(e, "undecided", len(e.Overdue(2*time.Second)), 0)
		e.Decide(suite.Decision(a.ID, memory.Approve))
		suite.Equal(e, "at once", len(e.Overdue(2*time.Second)), 0)
		e.H.Clock.Advance(3 * time.Second)
		_, ok := e.Overdue(2 * time.Second)[t.ThreadID]
		suite.Equal(e, "overdue", ok, true)
		settled := func() bool {
			open := suite.Must(e.S.OpenTurns(e.Ctx, memory.OpenTurnFilter{Age: 2 * time.Second, Limit: 1}))(e)
			return open[0].Settled
		}
		suite.Equal(e, "and told with the open turns", settled(), true)
		e.H.Clock.Advance(time.Hour)
		suite.Equals(e, "an hour later the sweep reads it no more", len(e.Overdue(2*time.Second)), 0, "but it is told", settled(), true)
		e.RunTool(call, "ran")
		e.SaveRound(t, 1)
		suite.Equals(e, "saved", len(e.Overdue(2*time.Second)), 0, "told", settled(), false)
	}},
	{Name: "an answered question is overdue until the next step begins", Turn: func(e *suite.Env, t memory.Turn) {
		qs := e.Questioned(t, 1, "a?", "b?")
		e.H.Clock.Advance(time.Hour)
		suite.Equal(e, "unanswered", len(e.Overdue(2*time.Second)), 0)
		e.AnswerTo(qs[0].ID, "x")
		e.H.Clock.Advance(3 * time.Second)
		suite.Equal(e, "one waits still", len(e.Overdue(2*time.Second)), 0)
		e.AnswerTo(qs[1].ID, "y")
		suite.Equal(e, "at once", len(e.Overdue(2*time.Second)), 0)
		e.H.Clock.Advance(3 * time.Second)
		_, ok := e.Overdue(2 * time.Second)[t.ThreadID]
		suite.Equal(e, "overdue", ok, true)
		e.SaveRound(t, 1)
		e.Begin(t, 2)
		suite.Equal(e, "begun", len(e.Overdue(2*time.Second)), 0)
	}},
	{Name: "open turns are listed in pages, those alone that are old enough", Run: func(e *suite.Env) {
		for i := range 5 {
			e.Started(fmt.Sprintf("old%d", i))
		}
		e.H.Clock.Advance(time.Minute)
		young := e.Started("young")
		seen := map[string]bool{}
		for _, t := range suite.Pages(2, func(last memory.OpenTurn) []memory.OpenTurn {
			return suite.Must(e.S.OpenTurns(e.Ctx, memory.OpenTurnFilter{Age: time.Minute, Limit: 2, After: last}))(e)
		}) {
			suite.Equal(e, "seen before", seen[t.TurnID], false)
			seen[t.TurnID] = true
		}
		suite.Equal(e, "seen", [2]any{len(seen), seen[young.ID]}, [2]any{5, false})
	}},
	{Name: "the load counts open turns, waiting entries, and what waits for people", Run: func(e *suite.Env) {
		suite.Equal(e, "empty", suite.Must(e.S.Load(e.Ctx))(e), memory.Load{})
		t := e.Started("s1")
		e.Gated(t, 1, agent.GateAsk)
		a := e.Ask(t, 1)
		e.Send("s2", "m1")
		q := e.Started("s3")
		asked := e.Questioned(q, 1, "a?", "b?")
		e.AnswerTo(asked[0].ID, "x")
		suite.Equal(e, "under way", suite.Must(e.S.Load(e.Ctx))(e), memory.Load{OpenTurns: 2, Waiting: 1, Approvals: 1, Questions: 1})
		e.Decide(suite.Decision(a.ID, memory.Deny))
		e.Close(suite.Cancelled(q, 1))
		suite.Equal(e, "settled", suite.Must(e.S.Load(e.Ctx))(e), memory.Load{OpenTurns: 1, Waiting: 1})
	}},
}

// edgeRules are the corners of several operations.
var edgeRules = []suite.Rule{
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
}

var livesRules = []suite.Rule{
	{Name: "a session that is deleted and made again gives its turns other ids, and nothing of the old one counts", Run: func(e *suite.Env) {
		old := e.Started("s1")
		attempt := e.Begin(old, 1)
		e.Close(suite.Cancelled(old, 1)) // a worker that is paused does not hear of it
		e.Remove(old.ThreadID)
		e.H.Clock.Advance(time.Second)
		made := e.Started("s1")
		if made.ID == old.ID {
			e.Fatalf("both turns have the id %s", old.ID)
		}
		e.Begin(made, 1)
		e.Unchanged(made.ThreadID, func() {
			_, err := e.S.SaveReply(e.Ctx, suite.Record(old, 1, attempt, "of the deleted session"))
			e.Stale(err)
		})
		e.Answer2(made, 1, 1, "of the new one")
		e.Sound(made.ThreadID)
	}},
	{Name: "a turn whose run is gone is completed if its final reply is stored, and no next turn is opened", Run: func(e *suite.Env) {
		t := e.Started("s1")
		next := e.Send("s1", "m2")
		attempt := e.Begin(t, 1)
		suite.Must(e.S.SaveReply(e.Ctx, suite.Record(t, 1, attempt, "the answer")))(e)
		closed := e.Terminated(t, 1)
		suite.Equal(e, "outcome", [2]any{closed.Outcome, closed.Next}, [2]any{agent.ThreadCompleted, ""})
		suite.Equal(e, "answer", suite.Must(e.S.Turn(e.Ctx, t.ID))(e).Answer, "the answer")
		suite.Equal(e, "next", e.Take(t.ThreadID).ID, next.TurnID)
		e.Sound(t.ThreadID)
	}},
}

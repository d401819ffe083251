package turncases

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var turnRules = []suite.Rule{
	{Name: "taking an entry opens its turn and appends the user's message in one write", Run: func(e *suite.Env) {
		r := e.Send("s1", "m1")
		claim, err := e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: r.ThreadID, RunID: "run-1", Config: suite.MainConfig()})
		e.Ok(err)
		t := claim.Turn
		if t == nil {
			e.Fatalf("nothing was taken")
		}
		suite.Equals(e, "turn", t.ID, r.TurnID, "entry", [2]string{string(t.EntryKind), t.MessageID}, [2]string{"message", "m1"})
		suite.Equals(e, "state", t.State, memory.TurnOpen, "step", claim.Step, 1, "run", t.RunID, "run-1")
		th := e.Thread(r.ThreadID)
		suite.Equals(e, "claim's thread", claim.Thread.OpenTurnID, t.ID, "open turn", th.OpenTurnID, t.ID, "status", th.Status, agent.ThreadRunning)
		suite.Equal(e, "config", th.Config.SystemPrompt, "You answer.")
		ms := e.Messages(r.ThreadID)
		suite.Equal(e, "messages", len(ms), 1)
		if ms[0].ID != "m1" && ms[0].ID != agent.MessageID(t.ID, 0) {
			e.Errorf("the user's message has id %q", ms[0].ID)
		}
		suite.Equal(e, "role and text", [2]string{string(ms[0].Role), ms[0].Content.String()}, [2]string{"user", "text of m1"})
		suite.Equal(e, "turn and seq", ms[0].TurnID == t.ID && ms[0].Seq == 1, true)
		en := e.Inbox(r.ThreadID)[0]
		suite.Equals(e, "entry state", en.State, memory.EntryTaken, "taken by", en.TakenBy, t.ID)
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
		e.Send("s1", "m1")
		e.Send("s1", "m2")
		claims := make([]memory.Claim, 8)
		e.AtOnce(len(claims), func(i int) (err error) {
			claims[i], err = e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: "s1/default", RunID: "r"})
			return err
		})
		for _, c := range claims {
			suite.Equal(e, "turn", c.Turn.ID, agent.TurnID("s1/default", "m1", 0))
		}
		suite.Equal(e, "messages", len(e.Messages("s1/default")), 1)
	}},
	{Name: "with nothing to take a claim returns no turn", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "done")
		e.Unchanged(t.ThreadID, func() { e.Idle(t.ThreadID) })
		suite.Fails(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: "none/default", RunID: "r"}))(e, agent.CodeNotFound)
	}},
	{Name: "a claim of a turn under way names the first step that is not saved", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 1)
		suite.Equal(e, "before the round", suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: t.ThreadID}))(e).Step, 1)
		e.RunTool(calls[0], "one")
		e.SaveRound(t, 1)
		suite.Equal(e, "after the round", suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: t.ThreadID}))(e).Step, 2)
		e.Reply(t, 2, "final")
		suite.Equal(e, "answer not saved", suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: t.ThreadID}))(e).Step, 2)
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
		var texts []string
		for _, m := range e.Messages("s1/default") {
			texts = append(texts, m.Content.String())
		}
		suite.Equal(e, "transcript", texts, []string{"text of m1", "answer to m1", "text of m2", "answer to m2", "text of m3", "answer to m3"})
	}},
	{Name: "every write of a closed turn is stale and changes nothing", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Begin(t, 1)
		e.Close(suite.Failed(t, 1, agent.ReasonError))
		e.StaleTurn(t, a)
	}},
	{Name: "every write of a turn that is not the open one is stale", Turn: func(e *suite.Env, t memory.Turn) {
		e.Send("s1", "m2")
		a := e.Begin(t, 1)
		next := e.Close(suite.Failed(t, 1, agent.ReasonError)).Next
		b := e.Begin(e.Turn(next), 1)
		suite.Equal(e, "attempts look alike", a, b)
		e.StaleTurn(t, a)
		e.Answer2(e.Turn(next), 1, b, "second")
	}},
	{Name: "an interrupted turn is found open with what it stored", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 3)
		e.RunTool(calls[0], "kept")
		again := e.Take(t.ThreadID)
		suite.Equal(e, "turn", again.ID, t.ID)
		st := suite.Must(e.S.StepState(e.Ctx, suite.Round(t, 1)))(e)
		suite.Equals(e, "calls", len(st.Calls), 3, "first", [2]string{string(st.Calls[0].Status), st.Calls[0].Result}, [2]string{"success", "kept"})
		suite.Equal(e, "second", st.Calls[1].Status, agent.CallPending)
		suite.Equal(e, "waiting, cancelled", [2]bool{st.Waiting, st.Cancelled}, [2]bool{})
	}},
}

var closeRules = []suite.Rule{
	{Name: "completing appends the stored answer, ends the turn and the thread, in one write", Turn: func(e *suite.Env, t memory.Turn) {
		e.Reply(t, 1, "the answer")
		c := e.Close(suite.Completed(t, 1))
		suite.Equal(e, "outcome and next", [2]string{string(c.Outcome), c.Next}, [2]string{"completed", ""})
		ms := e.Messages(t.ThreadID)
		suite.Equals(e, "messages", len(ms), 2, "id", ms[1].ID, agent.MessageID(t.ID, 1))
		suite.Equal(e, "text", [2]string{string(ms[1].Role), ms[1].Content.String()}, [2]string{"assistant", "the answer"})
		suite.Equal(e, "partial", ms[1].Partial, false)
		th, turn := e.Thread(t.ThreadID), e.Turn(t.ID)
		suite.Equal(e, "thread", [2]string{string(th.Status), th.OpenTurnID}, [2]string{"completed", ""})
		suite.Equal(e, "turn", [3]string{string(turn.State), string(turn.Outcome), turn.Answer}, [3]string{"closed", "completed", "the answer"})
		suite.Equal(e, "closed at", turn.ClosedAt != nil, true)
		suite.Equal(e, "events", e.Types(t.ThreadID), []string{agent.EventMessageStarted, agent.EventAssistantMessage, agent.EventDone})
		suite.Equal(e, "stream", suite.Must(e.S.Stream(e.Ctx, t.ThreadID))(e), nil)
	}},
	{Name: "a close takes the next entry, and says so again however late it is repeated", Turn: func(e *suite.Env, t memory.Turn) {
		m2 := e.Send("s1", "m2")
		c := e.Answer(t, 1, "one")
		suite.Equal(e, "next", c.Next, m2.TurnID)
		th := e.Thread(t.ThreadID)
		suite.Equal(e, "thread", [2]string{string(th.Status), th.OpenTurnID}, [2]string{"running", m2.TurnID})
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
	{Name: "closes at once end the turn once", Turn: func(e *suite.Env, t memory.Turn) {
		e.Send("s1", "m2")
		e.Reply(t, 1, "one")
		got := make([]memory.Closed, 8)
		e.AtOnce(len(got), func(i int) (err error) {
			r := suite.Completed(t, 1)
			if i%2 == 1 {
				r = suite.Failed(t, 1, agent.ReasonTerminated)
			}
			got[i], err = e.S.CloseTurn(e.Ctx, r)
			return err
		})
		for _, c := range got {
			suite.Equal(e, "outcome and next", [2]string{string(c.Outcome), c.Next}, [2]string{string(got[0].Outcome), got[0].Next})
		}
	}},
	{Name: "failing keeps the text streamed so far once, as partial", Turn: func(e *suite.Env, t memory.Turn) {
		first := e.Begin(t, 1)
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, first, 0, "first try")))
		e.Ok(e.S.FailModel(e.Ctx, suite.Failure(t, 1, first)))
		second := e.Begin(t, 1)
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, second, 0, "half an ans")))
		e.Close(suite.Failed(t, 1, agent.ReasonTimeout))
		e.Close(suite.Failed(t, 1, agent.ReasonTimeout))
		ms := e.Messages(t.ThreadID)
		suite.Equals(e, "messages", len(ms), 2, "text", ms[1].Content.String(), "half an ans", "partial", ms[1].Partial, true)
		th, turn := e.Thread(t.ThreadID), e.Turn(t.ID)
		suite.Equal(e, "thread", [2]string{string(th.Status), string(th.Reason)}, [2]string{"failed", "timeout"})
		suite.Equal(e, "turn", [2]string{string(turn.Outcome), string(turn.Reason)}, [2]string{"failed", "timeout"})
		suite.Equal(e, "events", e.Types(t.ThreadID)[1:], []string{agent.EventError})
		suite.Equal(e, "stream", suite.Must(e.S.Stream(e.Ctx, t.ThreadID))(e), nil)
	}},
	{Name: "failing before anything was streamed appends nothing", Turn: func(e *suite.Env, t memory.Turn) {
		e.Begin(t, 1)
		e.Close(suite.Failed(t, 1, agent.ReasonError))
		suite.Equal(e, "messages", len(e.Messages(t.ThreadID)), 1)
	}},
	{Name: "failing with a stored answer keeps its text", Turn: func(e *suite.Env, t memory.Turn) {
		e.Reply(t, 1, "stored but not saved")
		e.Close(suite.Failed(t, 1, agent.ReasonTimeout))
		ms := e.Messages(t.ThreadID)
		suite.Equals(e, "messages", len(ms), 2, "text", ms[1].Content.String(), "stored but not saved")
	}},
	{Name: "failing with a stored round keeps finished results and settles the rest", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 3)
		e.RunTool(calls[0], "kept")
		e.BeginTool(calls[1], false)
		e.Close(suite.Failed(t, 1, agent.ReasonError))
		suite.Equals(e, "finished", e.Call(calls[0].ID).Status, agent.CallSuccess, "in flight", e.Call(calls[1].ID).Status, agent.CallAborted)
		suite.Equal(e, "never started", e.Call(calls[2].ID).Status, agent.CallAborted)
		ms := e.Messages(t.ThreadID)
		suite.Equals(e, "messages", len(ms), 5, "kept", ms[2].Content.String(), "kept")
		suite.Equal(e, "aborted", ms[4].Content.String(), "Tool execution aborted: the turn failed")
		suite.Equal(e, "responses", len(e.EventsOf(t.ThreadID, agent.EventToolResponse)), 3)
	}},
	{Name: "an empty answer is an answer", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "")
		suite.Equals(e, "messages", len(e.Messages(t.ThreadID)), 2, "status", e.Thread(t.ThreadID).Status, agent.ThreadCompleted)
	}},
}

package memorytest

import (
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

var turnRules = []rule{
	{"taking an entry opens its turn and appends the user's message in one write", func(e *env) {
		r := e.send("s1", "m1")
		claim, err := e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: r.ThreadID, RunID: "run-1", Config: mainConfig()})
		e.ok(err)
		t := claim.Turn
		if t == nil {
			e.Fatalf("nothing was taken")
		}
		equal(e, "turn", t.ID, r.TurnID)
		equal(e, "entry", [2]string{string(t.EntryKind), t.MessageID}, [2]string{"message", "m1"})
		equal(e, "state", t.State, memory.TurnOpen)
		equal(e, "step", claim.Step, 1)
		equal(e, "run", t.RunID, "run-1")
		th := e.thread(r.ThreadID)
		equal(e, "claim's thread", claim.Thread.OpenTurnID, t.ID)
		equal(e, "open turn", th.OpenTurnID, t.ID)
		equal(e, "status", th.Status, agent.ThreadRunning)
		equal(e, "config", th.Config.SystemPrompt, "You answer.")
		ms := e.messages(r.ThreadID)
		equal(e, "messages", len(ms), 1)
		if ms[0].ID != "m1" && ms[0].ID != agent.MessageID(t.ID, 0) {
			e.Errorf("the user's message has id %q", ms[0].ID)
		}
		equal(e, "role and text", [2]string{string(ms[0].Role), ms[0].Content.String()}, [2]string{"user", "text of m1"})
		equal(e, "turn and seq", ms[0].TurnID == t.ID && ms[0].Seq == 1, true)
		en := e.inbox(r.ThreadID)[0]
		equal(e, "entry state", en.State, memory.EntryTaken)
		equal(e, "taken by", en.TakenBy, t.ID)
		equal(e, "events", e.types(r.ThreadID), []string{agent.EventMessageStarted})
		e.sound(r.ThreadID)
	}},
	{"an open turn without a saved step takes the template of the agent that its claim named", func(e *env) {
		t := e.started("s1")
		e.answer(t, 1, "one")
		r := message("s1", "m2", "text of m2")
		r.Agent = "other"
		must[memory.SendResult](e)(e.s.Send(e.ctx, r))
		e.take(t.ThreadID) // still with the template of the agent before
		other := &agent.SpecialistAgentConfig{Name: "other", SystemPrompt: "You are another."}
		must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID, RunID: "run-of-" + t.ThreadID, Config: other}))
		th := e.thread(t.ThreadID)
		equal(e, "agent", [2]string{th.AgentType, th.Config.SystemPrompt}, [2]string{"other", "You are another."})
	}},
	{"a message to another agent takes nothing of the template of the one before", func(e *env) {
		t := e.started("s1")
		r := message("s1", "m2", "text of m2")
		r.Agent = "other"
		must[memory.SendResult](e)(e.s.Send(e.ctx, r))
		e.answer(t, 1, "one")
		th := e.thread(t.ThreadID)
		equal(e, "template", [2]string{th.Config.Name, th.Config.SystemPrompt}, [2]string{"other", ""})
	}},
	{"claims at once open one turn", func(e *env) {
		e.send("s1", "m1")
		e.send("s1", "m2")
		var wg sync.WaitGroup
		claims := make([]memory.Claim, 8)
		errs := make([]error, len(claims))
		for i := range claims {
			wg.Go(func() {
				claims[i], errs[i] = e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: "s1/default", RunID: "r"})
			})
		}
		wg.Wait()
		for i, c := range claims {
			e.ok(errs[i])
			equal(e, "turn", c.Turn.ID, agent.TurnID("s1/default", "m1", 0))
		}
		equal(e, "messages", len(e.messages("s1/default")), 1)
	}},
	{"with nothing to take a claim returns no turn", func(e *env) {
		t := e.started("s1")
		e.answer(t, 1, "done")
		e.unchanged(t.ThreadID, func() {
			claim, err := e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID, RunID: "r"})
			e.ok(err)
			if claim.Turn != nil {
				e.Fatalf("took %s", claim.Turn.ID)
			}
		})
		_, err := e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: "none/default", RunID: "r"})
		e.code(err, agent.CodeNotFound)
	}},
	{"a claim of a turn under way names the first step that is not saved", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 1)
		equal(e, "before the round", must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID})).Step, 1)
		e.runTool(calls[0], "one")
		e.saveRound(t, 1)
		equal(e, "after the round", must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID})).Step, 2)
		e.reply(t, 2, "final")
		equal(e, "answer not saved", must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID})).Step, 2)
	}},
	{"messages are taken in the order of arrival, one turn at a time", func(e *env) {
		for _, id := range []string{"m1", "m2", "m3"} {
			e.send("s1", id)
		}
		t := e.take("s1/default")
		for _, id := range []string{"m1", "m2", "m3"} {
			equal(e, "message", t.MessageID, id)
			if next := e.answer(t, 1, "answer to "+id).Next; next != "" {
				t = e.turn(next)
			}
		}
		var texts []string
		for _, m := range e.messages("s1/default") {
			texts = append(texts, m.Content.String())
		}
		equal(e, "transcript", texts, []string{"text of m1", "answer to m1", "text of m2", "answer to m2", "text of m3", "answer to m3"})
		e.sound("s1/default")
	}},
	{"every write of a closed turn is stale and changes nothing", func(e *env) {
		t := e.started("s1")
		a := e.begin(t, 1)
		e.close(failed(t, 1, agent.ReasonError))
		e.staleTurn(t, a)
		e.sound(t.ThreadID)
	}},
	{"every write of a turn that is not the open one is stale", func(e *env) {
		t := e.started("s1")
		e.send("s1", "m2")
		a := e.begin(t, 1)
		next := e.close(failed(t, 1, agent.ReasonError)).Next
		b := e.begin(e.turn(next), 1)
		equal(e, "attempts look alike", a, b)
		e.staleTurn(t, a)
		e.answer2(e.turn(next), 1, b, "second")
		e.sound(t.ThreadID)
	}},
	{"an interrupted turn is found open with what it stored", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 3)
		e.runTool(calls[0], "kept")
		again := e.take(t.ThreadID)
		equal(e, "turn", again.ID, t.ID)
		st := must[memory.StepState](e)(e.s.StepState(e.ctx, round(t, 1)))
		equal(e, "calls", len(st.Calls), 3)
		equal(e, "first", [2]string{string(st.Calls[0].Status), st.Calls[0].Result}, [2]string{"success", "kept"})
		equal(e, "second", st.Calls[1].Status, agent.CallPending)
		equal(e, "waiting, cancelled", [2]bool{st.Waiting, st.Cancelled}, [2]bool{})
	}},
}

// answer2 stores a final reply for an attempt that is under way, and closes.
func (e *env) answer2(t memory.Turn, step, attempt int, text string) memory.Closed {
	e.Helper()
	must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, record(t, step, attempt, text)))
	return e.close(completed(t, step))
}

// staleTurn tries every kind of write for a turn that is not open.
func (e *env) staleTurn(t memory.Turn, attempt int) {
	e.Helper()
	call := agent.CallID(t.ID, 1, 0)
	e.unchanged(t.ThreadID, func() {
		_, err := e.s.BeginModel(e.ctx, e.modelBegin(t, 2))
		e.stale(err)
		e.stale(e.s.AppendChunk(e.ctx, chunk(t, 1, attempt, 0, "late")))
		e.stale(e.s.FailModel(e.ctx, failure(t, 1, attempt)))
		_, err = e.s.SaveReply(e.ctx, record(t, 1, attempt, "late"))
		e.stale(err)
		_, err = e.s.SaveToolRound(e.ctx, round(t, 2))
		e.code(err, agent.CodeStale, agent.CodeNotFound)
		_, err = e.s.OpenApproval(e.ctx, round(t, 2))
		e.code(err, agent.CodeStale, agent.CodeNotFound)
		_, err = e.s.BeginTool(e.ctx, memory.ToolBegin{ThreadID: t.ThreadID, TurnID: t.ID, CallID: call, Fence: e.fence(), Repeatable: true})
		e.code(err, agent.CodeStale, agent.CodeNotFound)
	})
}

var closeRules = []rule{
	{"completing appends the stored answer, ends the turn and the thread, in one write", func(e *env) {
		t := e.started("s1")
		e.reply(t, 1, "the answer")
		c := e.close(completed(t, 1))
		equal(e, "outcome and next", [2]string{string(c.Outcome), c.Next}, [2]string{"completed", ""})
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), 2)
		equal(e, "id", ms[1].ID, agent.MessageID(t.ID, 1))
		equal(e, "text", [2]string{string(ms[1].Role), ms[1].Content.String()}, [2]string{"assistant", "the answer"})
		equal(e, "partial", ms[1].Partial, false)
		th, turn := e.thread(t.ThreadID), e.turn(t.ID)
		equal(e, "thread", [2]string{string(th.Status), th.OpenTurnID}, [2]string{"completed", ""})
		equal(e, "turn", [3]string{string(turn.State), string(turn.Outcome), turn.Answer}, [3]string{"closed", "completed", "the answer"})
		equal(e, "closed at", turn.ClosedAt != nil, true)
		equal(e, "events", e.types(t.ThreadID), []string{agent.EventMessageStarted, agent.EventAssistantMessage, agent.EventDone})
		equal(e, "stream", must[*memory.Streamed](e)(e.s.Stream(e.ctx, t.ThreadID)), nil)
		e.sound(t.ThreadID)
	}},
	{"a close takes the next entry, and says so again however late it is repeated", func(e *env) {
		t := e.started("s1")
		m2 := e.send("s1", "m2")
		c := e.answer(t, 1, "one")
		equal(e, "next", c.Next, m2.TurnID)
		th := e.thread(t.ThreadID)
		equal(e, "thread", [2]string{string(th.Status), th.OpenTurnID}, [2]string{"running", m2.TurnID})
		equal(e, "recorded", e.turn(t.ID).NextTurn, m2.TurnID)
		equal(e, "messages", len(e.messages(t.ThreadID)), 3)
		e.answer(e.turn(c.Next), 1, "two")
		e.unchanged(t.ThreadID, func() { equal(e, "next", e.close(completed(t, 1)).Next, m2.TurnID) })
		e.sound(t.ThreadID)
	}},
	{"a close snapshots the configuration for the turn it takes", func(e *env) {
		t := e.started("s1")
		e.send("s1", "m2")
		e.reply(t, 1, "one")
		r := completed(t, 1)
		r.NextConfig = &agent.SpecialistAgentConfig{Name: "orchestrator", SystemPrompt: "New words."}
		e.close(r)
		equal(e, "prompt", e.thread(t.ThreadID).Config.SystemPrompt, "New words.")
	}},
	{"closes at once end the turn once", func(e *env) {
		t := e.started("s1")
		e.send("s1", "m2")
		e.reply(t, 1, "one")
		var wg sync.WaitGroup
		got := make([]memory.Closed, 8)
		errs := make([]error, len(got))
		for i := range got {
			r := completed(t, 1)
			if i%2 == 1 {
				r = failed(t, 1, agent.ReasonTerminated)
			}
			wg.Go(func() { got[i], errs[i] = e.s.CloseTurn(e.ctx, r) })
		}
		wg.Wait()
		for i, c := range got {
			e.ok(errs[i])
			equal(e, "outcome and next", [2]string{string(c.Outcome), c.Next}, [2]string{string(got[0].Outcome), got[0].Next})
		}
		e.sound(t.ThreadID)
	}},
	{"failing keeps the text streamed so far once, as partial", func(e *env) {
		t := e.started("s1")
		first := e.begin(t, 1)
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, first, 0, "first try")))
		e.ok(e.s.FailModel(e.ctx, failure(t, 1, first)))
		second := e.begin(t, 1)
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, second, 0, "half an ans")))
		e.close(failed(t, 1, agent.ReasonTimeout))
		e.close(failed(t, 1, agent.ReasonTimeout))
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), 2)
		equal(e, "text", ms[1].Content.String(), "half an ans")
		equal(e, "partial", ms[1].Partial, true)
		th, turn := e.thread(t.ThreadID), e.turn(t.ID)
		equal(e, "thread", [2]string{string(th.Status), string(th.Reason)}, [2]string{"failed", "timeout"})
		equal(e, "turn", [2]string{string(turn.Outcome), string(turn.Reason)}, [2]string{"failed", "timeout"})
		equal(e, "events", e.types(t.ThreadID)[1:], []string{agent.EventError})
		equal(e, "stream", must[*memory.Streamed](e)(e.s.Stream(e.ctx, t.ThreadID)), nil)
		e.sound(t.ThreadID)
	}},
	{"failing before anything was streamed appends nothing", func(e *env) {
		t := e.started("s1")
		e.begin(t, 1)
		e.close(failed(t, 1, agent.ReasonError))
		equal(e, "messages", len(e.messages(t.ThreadID)), 1)
		e.sound(t.ThreadID)
	}},
	{"failing with a stored answer keeps its text", func(e *env) {
		t := e.started("s1")
		e.reply(t, 1, "stored but not saved")
		e.close(failed(t, 1, agent.ReasonTimeout))
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), 2)
		equal(e, "text", ms[1].Content.String(), "stored but not saved")
		e.sound(t.ThreadID)
	}},
	{"failing with a stored round keeps finished results and settles the rest", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 3)
		e.runTool(calls[0], "kept")
		e.beginTool(calls[1], false)
		e.close(failed(t, 1, agent.ReasonError))
		equal(e, "finished", e.call(calls[0].ID).Status, agent.CallSuccess)
		equal(e, "in flight", e.call(calls[1].ID).Status, agent.CallAborted)
		equal(e, "never started", e.call(calls[2].ID).Status, agent.CallAborted)
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), 5)
		equal(e, "kept", ms[2].Content.String(), "kept")
		equal(e, "aborted", ms[4].Content.String(), "Tool execution aborted: the turn failed")
		equal(e, "responses", len(e.eventsOf(t.ThreadID, agent.EventToolResponse)), 3)
		e.sound(t.ThreadID)
	}},
	{"an empty answer is an answer", func(e *env) {
		t := e.started("s1")
		e.answer(t, 1, "")
		equal(e, "messages", len(e.messages(t.ThreadID)), 2)
		equal(e, "status", e.thread(t.ThreadID).Status, agent.ThreadCompleted)
		e.sound(t.ThreadID)
	}},
}

package memorytest

import (
	"fmt"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func askUser(text string) agent.Call {
	return agent.NewCall("provider-1", "ask_user", `{"question":"`+text+`"}`)
}

func questionFor(c agent.ToolCall, text string) memory.QuestionRequest {
	return memory.QuestionRequest{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Text: text}
}

func (e *env) question(c agent.ToolCall, text string) memory.Question {
	e.Helper()
	return must[memory.Question](e)(e.s.OpenQuestion(e.ctx, questionFor(c, text)))
}

// questioned opens a step whose calls ask, each its text.
func (e *env) questioned(t memory.Turn, step int, texts ...string) []memory.Question {
	e.Helper()
	var calls []agent.Call
	for _, text := range texts {
		calls = append(calls, askUser(text))
	}
	var out []memory.Question
	for i, c := range e.reply(t, step, "", calls...).Calls {
		out = append(out, e.question(c, texts[i]))
	}
	return out
}

func answerTo(target, text string) memory.AnswerRequest {
	return memory.AnswerRequest{UserID: user, By: "alice", Target: target, Text: text}
}

func (e *env) answerTo(target, text string) memory.AnswerResult {
	e.Helper()
	return must[memory.AnswerResult](e)(e.s.Answer(e.ctx, answerTo(target, text)))
}

func (e *env) questions(f memory.QuestionFilter) []memory.Question {
	e.Helper()
	return must[[]memory.Question](e)(e.s.Questions(e.ctx, f))
}

// plain is a message whose sender makes no choice.
func plain(session, id, text string) memory.SendRequest {
	r := message(session, id, text)
	r.WhenBusy = ""
	return r
}

func (e *env) sendPlain(session, id, text string) memory.SendResult {
	e.Helper()
	return must[memory.SendResult](e)(e.s.Send(e.ctx, plain(session, id, text)))
}

var questionRules = []rule{
	{"a question makes its thread and its call's task wait, and the answer is the call's result", func(e *env) {
		t := e.started("s1")
		q := e.questioned(t, 1, "which colour?")[0]
		equal(e, "place", [4]any{q.ThreadID, q.RootThread, q.TurnID, q.Step}, [4]any{t.ThreadID, t.ThreadID, t.ID, 1})
		equal(e, "question", [4]any{q.Agent, q.Text, q.State, q.TaskID}, [4]any{"orchestrator", "which colour?", memory.QuestionOpen, ""})
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadWaitingForUser)
		equal(e, "call", e.call(q.CallID).Status, agent.CallRunning)
		equal(e, "task", e.task(t.ThreadID, agent.TaskID(q.CallID)).Status, agent.TaskWaiting)
		ev := e.eventsOf(t.ThreadID, agent.EventQuestionAsked)
		equal(e, "asked", len(ev), 1)
		equal(e, "event", [3]any{ev[0]["questionId"], ev[0]["agent"], ev[0]["text"]}, [3]any{q.ID, "orchestrator", "which colour?"})
		e.sound(t.ThreadID)

		e.h.Clock.Advance(time.Hour)
		r := e.answerTo(q.ID, "blue")
		equal(e, "outcome", [4]any{r.Repeated, r.Question.State, r.Question.Answer, r.Question.AnsweredBy}, [4]any{false, memory.QuestionAnswered, "blue", "alice"})
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadRunning)
		c := e.call(q.CallID)
		equal(e, "call", [2]string{string(c.Status), c.Result}, [2]string{"success", "blue"})
		equal(e, "task", e.task(t.ThreadID, agent.TaskID(q.CallID)).Status, agent.TaskSuccess)
		equal(e, "waited", e.turn(t.ID).WaitedMs, time.Hour.Milliseconds())
		ev = e.eventsOf(t.ThreadID, agent.EventQuestionAnswered)
		equal(e, "answered", len(ev), 1)
		equal(e, "event", [3]any{ev[0]["questionId"], ev[0]["answeredBy"], ev[0]["answer"]}, [3]any{q.ID, "alice", "blue"})
		e.saveRound(t, 1)
		equal(e, "message", e.messages(t.ThreadID)[2].Content.String(), "blue")
		e.answer(t, 2, "blue it is")
		e.sound(t.ThreadID)
	}},
	{"several questions of one reply wait each for its own answer", func(e *env) {
		t := e.started("s1")
		qs := e.questioned(t, 1, "a?", "b?")
		e.h.Clock.Advance(time.Minute)
		e.answerTo(qs[1].ID, "for b")
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadWaitingForUser)
		equal(e, "open", e.questions(memory.QuestionFilter{ThreadID: t.ThreadID, OpenOnly: true})[0].ID, qs[0].ID)
		_, err := e.s.SaveToolRound(e.ctx, round(t, 1))
		e.code(err, agent.CodeConflict)
		e.h.Clock.Advance(time.Minute)
		e.answerTo(qs[0].CallID, "for a") // by its call
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadRunning)
		equal(e, "waited, counted once", e.turn(t.ID).WaitedMs, (2 * time.Minute).Milliseconds())
		e.saveRound(t, 1)
		ms := e.messages(t.ThreadID)
		equal(e, "results", [2]string{ms[2].Content.String(), ms[3].Content.String()}, [2]string{"for a", "for b"})
		e.sound(t.ThreadID)
	}},
	{"only a person ends a question, and only a call of ask_user asks one", func(e *env) {
		t := e.started("s1")
		calls := e.reply(t, 1, "", askUser("a?"), lookup(1)).Calls
		e.question(calls[0], "a?")
		e.unchanged(t.ThreadID, func() {
			_, err := e.s.BeginTool(e.ctx, e.toolBegin(calls[0], true))
			e.code(err, agent.CodeConflict)
			e.stale(e.s.SaveResult(e.ctx, result(calls[0], 1, "made up")))
			_, err = e.s.OpenQuestion(e.ctx, questionFor(calls[1], "b?"))
			e.code(err, agent.CodeConflict)
			_, err = e.s.OpenQuestion(e.ctx, questionFor(calls[0], ""))
			e.code(err, agent.CodeInvalid)
			_, err = e.s.Answer(e.ctx, answerTo(calls[0].ID, " \n"))
			e.code(err, agent.CodeInvalid)
		})
	}},
}

var plainAnswerRules = []rule{
	{"a plain message answers the only open question of the tree, once, and enters no inbox", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		q := e.questioned(child, 1, "which year?")[0]
		before := len(e.messages(t.ThreadID))
		r := e.sendPlain("s1", "m2", "1999")
		equal(e, "answered", [3]any{r.Answered.ID, r.Answered.Answer, r.Answered.AnsweredBy}, [3]any{q.ID, "1999", user})
		equal(e, "place", [4]any{r.ThreadID, r.TurnID, r.MessageID, r.Idle}, [4]any{t.ThreadID, t.ID, "m2", false})
		equal(e, "result", e.call(q.CallID).Result, "1999")
		equal(e, "inbox", len(e.inbox(t.ThreadID)), 1)
		equal(e, "messages", len(e.messages(t.ThreadID)), before)
		e.unchanged(t.ThreadID, func() {
			again := e.sendPlain("s1", "m2", "1999")
			equal(e, "repeated", [3]any{again.Repeated, again.Answered.ID, again.TurnID}, [3]any{true, q.ID, t.ID})
			queued := must[memory.SendResult](e)(e.s.Send(e.ctx, message("s1", "m2", "1999")))
			equal(e, "with a choice", queued.Answered.ID, q.ID)
			_, err := e.s.Send(e.ctx, plain("s1", "m2", "2000"))
			e.code(err, agent.CodeConflict)
		})
		e.saveRound(child, 1)
		e.answer(child, 2, "the finding")
		e.takeResult(e.firstCall(t, 1))
		e.saveRound(t, 1)
		e.answer(t, 2, "done")
		e.unchanged(t.ThreadID, func() {
			again := e.sendPlain("s1", "m2", "1999")
			equal(e, "after the turn's end", [2]any{again.Answered.ID, again.TurnID}, [2]any{q.ID, t.ID})
		})
		e.sound(t.ThreadID)
	}},
	{"a plain message is refused while several things wait for people, with a list of them", func(e *env) {
		t := e.started("s1")
		calls := e.assigns(t, 1, 2)
		one := e.take(e.open(delegation(calls[0], "researcher")).ChildThread)
		two := e.take(e.open(delegation(calls[1], "writer")).ChildThread)
		first, second := e.questioned(one, 1, "a?")[0], e.questioned(two, 1, "b?")[0]
		e.unchanged(t.ThreadID, func() {
			_, err := e.s.Send(e.ctx, plain("s1", "m2", "x"))
			e.code(err, agent.CodeConflict)
			for _, part := range []string{first.ID, second.ID, "researcher", "writer", "a?", "b?", "--when-busy queue"} {
				contains(e, "refusal", err.Error(), part)
			}
		})
		e.answerTo(first.ID, "x")
		e.runTool(e.gatedTwo(one), "found")
		e.unchanged(t.ThreadID, func() {
			_, err := e.s.Send(e.ctx, plain("s1", "m2", "x"))
			e.code(err, agent.CodeConflict) // an approval and a question
			contains(e, "refusal", err.Error(), second.ID)
		})
		e.send("s1", "m3") // queued
		equal(e, "inbox", e.entry(t.ThreadID, memory.EntryMessage, "m3").State, memory.EntryWaiting)
	}},
	{"a message that chooses an agent, a model or what to do when busy answers nothing", func(e *env) {
		t := e.started("s1")
		q := e.questioned(t, 1, "a?")[0]
		r := plain("s1", "m2", "x")
		r.Model = "big"
		_, err := e.s.Send(e.ctx, r)
		e.code(err, agent.CodeConflict)
		equal(e, "queued", e.send("s1", "m3").Answered == nil, true)
		equal(e, "open", e.questions(memory.QuestionFilter{ThreadID: t.ThreadID})[0].State, memory.QuestionOpen)
		equal(e, "answered", e.sendPlain("s1", "m4", "x").Answered.ID, q.ID)
	}},
	{"of messages, answers and a close at once one at most answers, and no message is lost or doubled", func(e *env) {
		for i := range 8 {
			session := fmt.Sprintf("race%d", i)
			t := e.started(session)
			q := e.questioned(t, 1, "a?")[0]
			sent := make([]memory.SendResult, 4)
			errs := make([]error, len(sent))
			var answered, closed error
			var wg sync.WaitGroup
			for n := range sent {
				wg.Go(func() {
					sent[n], errs[n] = e.s.Send(e.ctx, plain(session, fmt.Sprintf("p%d", n), fmt.Sprintf("text %d", n)))
				})
			}
			wg.Go(func() { _, answered = e.s.Answer(e.ctx, answerTo(q.ID, "by itself")) })
			wg.Go(func() { _, closed = e.s.CloseTurn(e.ctx, cancelled(t, 1)) })
			wg.Wait()
			e.ok(closed)
			answers := 0
			if answered == nil {
				answers++
			} else {
				e.code(answered, agent.CodeConflict)
			}
			for n, r := range sent {
				e.ok(errs[n])
				if r.Answered != nil {
					answers++
				} else {
					equal(e, "in the inbox", e.entry(t.ThreadID, memory.EntryMessage, fmt.Sprintf("p%d", n)).TurnID, r.TurnID)
				}
			}
			asked := e.questions(memory.QuestionFilter{ID: q.ID})[0]
			equal(e, "answers", answers, map[memory.QuestionState]int{memory.QuestionAnswered: 1, memory.QuestionAborted: 0}[asked.State])
			equal(e, "entries", len(e.inbox(t.ThreadID)), 1+len(sent)-answers+boolInt(answered == nil))
			e.sound(t.ThreadID)
		}
	}},
	{"an answer to a sub-agent in the background holds up no turn", func(e *env) {
		t := e.started("s1")
		child := e.take(e.background(t, 1, "researcher").ChildThread)
		e.saveRound(t, 1)
		e.answer(t, 2, "started")
		q := e.questioned(child, 1, "a?")[0]
		r := e.sendPlain("s1", "m2", "x")
		equal(e, "answered", [2]any{r.Answered.ID, r.TurnID}, [2]any{q.ID, ""})
		e.sound(t.ThreadID)
	}},
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// gatedTwo opens step 2 of a turn with an approval, and a call beside it that may run.
func (e *env) gatedTwo(t memory.Turn) agent.ToolCall {
	e.Helper()
	calls := e.gated(t, 2, agent.GateAsk, agent.GateAuto)
	e.ask(t, 2)
	return calls[1]
}

package peoplecases

import (
	"fmt"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var questionRules = []suite.Rule{
	{Name: "a question makes its thread and its call's task wait, and the answer is the call's result", Turn: func(e *suite.Env, t memory.Turn) {
		q := e.Questioned(t, 1, "which colour?")[0]
		suite.Equal(e, "place", [4]any{q.ThreadID, q.RootThread, q.TurnID, q.Step}, [4]any{t.ThreadID, t.ThreadID, t.ID, 1})
		suite.Equal(e, "question", [4]any{q.Agent, q.Text, q.State, q.TaskID}, [4]any{"orchestrator", "which colour?", memory.QuestionOpen, ""})
		suite.Equals(e, "thread", e.Thread(t.ThreadID).Status, agent.ThreadWaitingForUser, "call", e.Call(q.CallID).Status, agent.CallRunning)
		suite.Equal(e, "task", e.Task(t.ThreadID, agent.TaskID(q.CallID)).Status, agent.TaskWaiting)
		ev := e.EventsOf(t.ThreadID, agent.EventQuestionAsked)
		suite.Equal(e, "asked", len(ev), 1)
		suite.Equal(e, "event", [3]any{ev[0]["questionId"], ev[0]["agent"], ev[0]["text"]}, [3]any{q.ID, "orchestrator", "which colour?"})
		e.Sound(t.ThreadID)

		e.H.Clock.Advance(time.Hour)
		r := e.AnswerTo(q.ID, "blue")
		suite.Equal(e, "outcome", [4]any{r.Repeated, r.Question.State, r.Question.Answer, r.Question.AnsweredBy}, [4]any{false, memory.QuestionAnswered, "blue", "alice"})
		suite.Equal(e, "thread", e.Thread(t.ThreadID).Status, agent.ThreadRunning)
		c := e.Call(q.CallID)
		suite.Equal(e, "call", [2]string{string(c.Status), c.Result}, [2]string{"success", "blue"})
		suite.Equal(e, "task", e.Task(t.ThreadID, agent.TaskID(q.CallID)).Status, agent.TaskSuccess)
		suite.Equal(e, "waited", e.Turn(t.ID).WaitedMs, time.Hour.Milliseconds())
		ev = e.EventsOf(t.ThreadID, agent.EventQuestionAnswered)
		suite.Equal(e, "answered", len(ev), 1)
		suite.Equal(e, "event", [3]any{ev[0]["questionId"], ev[0]["answeredBy"], ev[0]["answer"]}, [3]any{q.ID, "alice", "blue"})
		e.SaveRound(t, 1)
		suite.Equal(e, "message", e.Messages(t.ThreadID)[2].Content.String(), "blue")
		e.Answer(t, 2, "blue it is")
	}},
	{Name: "a question offers options, and the number of one is that answer", Turn: func(e *suite.Env, t memory.Turn) {
		ask := func(step int, options ...string) memory.Question {
			r := suite.QuestionFor(e.Reply(t, step, "", suite.AskUser("how many?")).Calls[0], "how many?")
			r.Options = options
			return suite.Must(e.S.OpenQuestion(e.Ctx, r))(e)
		}
		for i, c := range []struct{ said, answer string }{{" 2 ", "ten"}, {"3", "3"}, {"0", "0"}, {"5", "5"}, {"neither", "neither"}, {"ten", "ten"}} {
			q := ask(i+1, "3", "ten", "\x00nul")
			suite.Equal(e, "options", q.Options, []string{"3", "ten", "\uFFFDnul"})
			suite.Equal(e, "stored", e.Questions(memory.QuestionFilter{ThreadID: t.ThreadID, OpenOnly: true})[0].Options, q.Options)
			suite.Equal(e, "event", fmt.Sprint(e.EventsOf(t.ThreadID, agent.EventQuestionAsked)[i]["options"]), "[3 ten \uFFFDnul]")
			suite.Equal(e, "answer", e.AnswerTo(q.ID, c.said).Question.Answer, c.answer)
			suite.Equal(e, "repeated", e.AnswerTo(q.ID, c.said).Repeated, true)
			e.SaveRound(t, i+1)
		}
		suite.Equal(e, "none", len(ask(7).Options), 0)
	}},
	{Name: "several questions of one reply wait each for its own answer", Turn: func(e *suite.Env, t memory.Turn) {
		qs := e.Questioned(t, 1, "a?", "b?")
		e.H.Clock.Advance(time.Minute)
		e.AnswerTo(qs[1].ID, "for b")
		suite.Equal(e, "thread", e.Thread(t.ThreadID).Status, agent.ThreadWaitingForUser)
		suite.Equal(e, "open", e.Questions(memory.QuestionFilter{ThreadID: t.ThreadID, OpenOnly: true})[0].ID, qs[0].ID)
		suite.Fails(e.S.SaveToolRound(e.Ctx, suite.Round(t, 1)))(e, agent.CodeConflict)
		e.H.Clock.Advance(time.Minute)
		e.AnswerTo(qs[0].CallID, "for a") // by its call
		suite.Equal(e, "thread", e.Thread(t.ThreadID).Status, agent.ThreadRunning)
		suite.Equal(e, "waited, counted once", e.Turn(t.ID).WaitedMs, (2 * time.Minute).Milliseconds())
		e.SaveRound(t, 1)
		ms := e.Messages(t.ThreadID)
		suite.Equal(e, "results", [2]string{ms[2].Content.String(), ms[3].Content.String()}, [2]string{"for a", "for b"})
	}},
	{Name: "only a person ends a question, and only a call of ask_user asks one", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Reply(t, 1, "", suite.AskUser("a?"), suite.Lookup(1)).Calls
		e.Question(calls[0], "a?")
		e.Unchanged(t.ThreadID, func() {
			suite.Fails(e.S.BeginTool(e.Ctx, e.ToolBegin(calls[0], true)))(e, agent.CodeConflict)
			e.Stale(e.S.SaveResult(e.Ctx, suite.Result(calls[0], 1, "made up")))
			suite.Fails(e.S.OpenQuestion(e.Ctx, suite.QuestionFor(calls[1], "b?")))(e, agent.CodeConflict)
			suite.Fails(e.S.OpenQuestion(e.Ctx, suite.QuestionFor(calls[0], "")))(e, agent.CodeInvalid)
			suite.Fails(e.S.Answer(e.Ctx, suite.AnswerTo(calls[0].ID, " \n")))(e, agent.CodeInvalid)
		})
	}},
}

var plainAnswerRules = []suite.Rule{
	{Name: "a plain message answers the only open question of the tree, once, and enters no inbox", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Child(t, 1)
		q := e.Questioned(child, 1, "which year?")[0]
		before := len(e.Messages(t.ThreadID))
		r := e.SendPlain("s1", "m2", "1999")
		suite.Equal(e, "answered", [3]any{r.Answered.ID, r.Answered.Answer, r.Answered.AnsweredBy}, [3]any{q.ID, "1999", suite.User})
		suite.Equal(e, "place", [4]any{r.ThreadID, r.TurnID, r.MessageID, r.Idle}, [4]any{t.ThreadID, t.ID, "m2", false})
		suite.Equals(e, "result", e.Call(q.CallID).Result, "1999", "inbox", len(e.Inbox(t.ThreadID)), 1)
		suite.Equal(e, "messages", len(e.Messages(t.ThreadID)), before)
		e.Unchanged(t.ThreadID, func() {
			again := e.SendPlain("s1", "m2", "1999")
			suite.Equal(e, "repeated", [3]any{again.Repeated, again.Answered.ID, again.TurnID}, [3]any{true, q.ID, t.ID})
			queued := suite.Must(e.S.Send(e.Ctx, suite.Message("s1", "m2", "1999")))(e)
			suite.Equal(e, "with a choice", queued.Answered.ID, q.ID)
			suite.Fails(e.S.Send(e.Ctx, suite.Plain("s1", "m2", "2000")))(e, agent.CodeConflict)
		})
		e.SaveRound(child, 1)
		e.Answer(child, 2, "the finding")
		e.Taken(t, 1)
		e.Answer(t, 2, "done")
		e.Unchanged(t.ThreadID, func() {
			again := e.SendPlain("s1", "m2", "1999")
			suite.Equal(e, "after the turn's end", [2]any{again.Answered.ID, again.TurnID}, [2]any{q.ID, t.ID})
		})
	}},
	{Name: "a plain message is refused while several things wait for people, with a list of them", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Assigns(t, 1, 2)
		one := e.Take(e.Open(suite.Delegation(calls[0], "researcher")).ChildThread)
		two := e.Take(e.Open(suite.Delegation(calls[1], "writer")).ChildThread)
		first, second := e.Questioned(one, 1, "a?")[0], e.Questioned(two, 1, "b?")[0]
		e.Unchanged(t.ThreadID, func() {
			said := suite.Fails(e.S.Send(e.Ctx, suite.Plain("s1", "m2", "x")))(e, agent.CodeConflict)
			for _, part := range []string{first.ID, second.ID, "researcher", "writer", "a?", "b?", "--when-busy queue"} {
				suite.Contains(e, "refusal", said, part)
			}
		})
		e.AnswerTo(first.ID, "x")
		calls = e.Gated(one, 2, agent.GateAsk, agent.GateAuto)
		e.Ask(one, 2)
		e.RunTool(calls[1], "found")
		e.Unchanged(t.ThreadID, func() {
			said := suite.Fails(e.S.Send(e.Ctx, suite.Plain("s1", "m2", "x")))(e, agent.CodeConflict) // an approval and a question
			suite.Contains(e, "refusal", said, second.ID)
		})
		e.Send("s1", "m3") // queued
		suite.Equal(e, "inbox", e.Entry(t.ThreadID, memory.EntryMessage, "m3").State, memory.EntryWaiting)
	}},
	{Name: "a message that chooses an agent, a model or what to do when busy answers nothing", Turn: func(e *suite.Env, t memory.Turn) {
		q := e.Questioned(t, 1, "a?")[0]
		r := suite.Plain("s1", "m2", "x")
		r.Model = "big"
		suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeConflict)
		suite.Equal(e, "queued", e.Send("s1", "m3").Answered == nil, true)
		suite.Equal(e, "open", e.Questions(memory.QuestionFilter{ThreadID: t.ThreadID})[0].State, memory.QuestionOpen)
		suite.Equal(e, "answered", e.SendPlain("s1", "m4", "x").Answered.ID, q.ID)
	}},
	{Name: "of messages, answers and a close at once one at most answers, and no message is lost or doubled", Run: func(e *suite.Env) {
		for i := range 8 {
			session := fmt.Sprintf("race%d", i)
			t := e.Started(session)
			q := e.Questioned(t, 1, "a?")[0]
			sent := make([]memory.SendResult, 4)
			errs := make([]error, len(sent))
			var answered, closed error
			var wg sync.WaitGroup
			for n := range sent {
				wg.Go(func() {
					sent[n], errs[n] = e.S.Send(e.Ctx, suite.Plain(session, fmt.Sprintf("p%d", n), fmt.Sprintf("text %d", n)))
				})
			}
			wg.Go(func() { _, answered = e.S.Answer(e.Ctx, suite.AnswerTo(q.ID, "by itself")) })
			wg.Go(func() { _, closed = e.S.CloseTurn(e.Ctx, suite.Cancelled(t, 1)) })
			wg.Wait()
			e.Ok(closed)
			answers := 0
			if answered == nil {
				answers++
			} else {
				e.Code(answered, agent.CodeConflict)
			}
			for n, r := range sent {
				e.Ok(errs[n])
				if r.Answered != nil {
					answers++
				} else {
					suite.Equal(e, "in the inbox", e.Entry(t.ThreadID, memory.EntryMessage, fmt.Sprintf("p%d", n)).TurnID, r.TurnID)
				}
			}
			asked := e.Questions(memory.QuestionFilter{ID: q.ID})[0]
			suite.Equal(e, "answers", answers, map[memory.QuestionState]int{memory.QuestionAnswered: 1, memory.QuestionAborted: 0}[asked.State])
			suite.Equal(e, "entries", len(e.Inbox(t.ThreadID)), 1+len(sent)-answers+boolInt(answered == nil))
			e.Sound(t.ThreadID)
		}
	}},
	{Name: "an answer to a sub-agent in the background holds up no turn", Turn: func(e *suite.Env, t memory.Turn) {
		child := e.Apart(t, 1)
		e.Answer(t, 2, "started")
		q := e.Questioned(child, 1, "a?")[0]
		r := e.SendPlain("s1", "m2", "x")
		suite.Equal(e, "answered", [2]any{r.Answered.ID, r.TurnID}, [2]any{q.ID, ""})
	}},
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

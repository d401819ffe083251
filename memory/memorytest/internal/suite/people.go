package suite

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Gated stores a step whose calls have the gates, and returns its calls.
func (e *Env) Gated(t memory.Turn, step int, gates ...agent.Gate) []agent.ToolCall {
	var calls []agent.Call
	for i := range gates {
		calls = append(calls, Lookup(i))
	}
	r := Record(t, step, e.Begin(t, step), "", calls...)
	r.Gates = gates
	return Must(e.S.SaveReply(e.Ctx, r))(e).Calls
}

// Ask opens the approval of a step and returns it.
func (e *Env) Ask(t memory.Turn, step int) memory.Approval {
	return Must(e.S.OpenApproval(e.Ctx, Round(t, step)))(e)
}

// Decision is a person's word on an approval.
func Decision(target, verdict string) memory.Decision {
	return memory.Decision{UserID: User, By: "alice", Target: target, Verdict: verdict}
}

// Decide expects a decision to be taken.
func (e *Env) Decide(d memory.Decision) memory.DecideResult { return Must(e.S.Decide(e.Ctx, d))(e) }

// Approvals lists approvals.
func (e *Env) Approvals(f memory.ApprovalFilter) []memory.Approval {
	return Must(e.S.Approvals(e.Ctx, f))(e)
}

// ApproveAll opens a step with a gated call and approves its tool for the session.
func (e *Env) ApproveAll(t memory.Turn) agent.ToolCall {
	c := e.Gated(t, 1, agent.GateAsk)[0]
	e.Decide(Decision(e.Ask(t, 1).ID, memory.ApproveAll))
	return c
}

// Asks reports whether a gated call of lookup waits for a person.
func (e *Env) Asks(t memory.Turn, step int) bool {
	c := e.Gated(t, step, agent.GateAsk)[0]
	if e.Call(c.ID).Gate != agent.GateAsk {
		return false
	}
	if _, err := e.S.OpenApproval(e.Ctx, Round(t, step)); err != nil {
		e.Code(err, agent.CodeConflict, agent.CodeInvalid, agent.CodeNotFound) // nothing to ask
	}
	return Must(e.S.StepState(e.Ctx, Round(t, step)))(e).Waiting
}

// AskUser is a model's call that asks the person.
func AskUser(text string) agent.Call {
	return agent.NewCall("provider-1", "ask_user", `{"question":"`+text+`"}`)
}

// QuestionFor opens the question of a call.
func QuestionFor(c agent.ToolCall, text string) memory.QuestionRequest {
	return memory.QuestionRequest{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Text: text}
}

// Question opens the question of a call.
func (e *Env) Question(c agent.ToolCall, text string) memory.Question {
	return Must(e.S.OpenQuestion(e.Ctx, QuestionFor(c, text)))(e)
}

// Questioned opens a step whose calls ask, each its text.
func (e *Env) Questioned(t memory.Turn, step int, texts ...string) []memory.Question {
	var calls []agent.Call
	for _, text := range texts {
		calls = append(calls, AskUser(text))
	}
	var out []memory.Question
	for i, c := range e.Reply(t, step, "", calls...).Calls {
		out = append(out, e.Question(c, texts[i]))
	}
	return out
}

// AnswerTo is an answer to a question.
func AnswerTo(target, text string) memory.AnswerRequest {
	return memory.AnswerRequest{UserID: User, By: "alice", Target: target, Text: text}
}

// AnswerTo answers a question.
func (e *Env) AnswerTo(target, text string) memory.AnswerResult {
	return Must(e.S.Answer(e.Ctx, AnswerTo(target, text)))(e)
}

// Questions lists questions.
func (e *Env) Questions(f memory.QuestionFilter) []memory.Question {
	return Must(e.S.Questions(e.Ctx, f))(e)
}

// Plain is a message whose sender makes no choice.
func Plain(session, id, text string) memory.SendRequest {
	r := Message(session, id, text)
	r.WhenBusy = ""
	return r
}

// SendPlain sends a message that may answer a question.
func (e *Env) SendPlain(session, id, text string) memory.SendResult {
	return Must(e.S.Send(e.Ctx, Plain(session, id, text)))(e)
}

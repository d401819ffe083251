package suite

import (
	"bytes"
	"image"
	"image/color"
	"image/png"

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

func (e *Env) Ask(t memory.Turn, step int) memory.Approval {
	return Must(e.S.OpenApproval(e.Ctx, Round(t, step)))(e)
}

func Decision(target, verdict string) memory.Decision {
	return memory.Decision{UserID: User, By: "alice", Target: target, Verdict: verdict}
}

func (e *Env) Decide(d memory.Decision) memory.DecideResult { return Must(e.S.Decide(e.Ctx, d))(e) }

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

func AskUser(text string) agent.Call {
	return agent.NewCall("provider-1", "ask_user", `{"question":"`+text+`"}`)
}

func QuestionFor(c agent.ToolCall, text string) memory.QuestionRequest {
	return memory.QuestionRequest{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Text: text}
}

func (e *Env) Question(c agent.ToolCall, text string) memory.Question {
	return Must(e.S.OpenQuestion(e.Ctx, QuestionFor(c, text)))(e)
}

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

func AnswerTo(target, text string) memory.AnswerRequest {
	return memory.AnswerRequest{UserID: User, By: "alice", Target: target, Text: text}
}

func (e *Env) AnswerTo(target, text string) memory.AnswerResult {
	return Must(e.S.Answer(e.Ctx, AnswerTo(target, text)))(e)
}

func (e *Env) Questions(f memory.QuestionFilter) []memory.Question {
	return Must(e.S.Questions(e.Ctx, f))(e)
}

func Plain(session, id, text string) memory.SendRequest {
	r := Message(session, id, text)
	r.WhenBusy = ""
	return r
}

func (e *Env) SendPlain(session, id, text string) memory.SendResult {
	return Must(e.S.Send(e.Ctx, Plain(session, id, text)))(e)
}

func Picture(n int) []byte {
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	img.SetGray(0, 0, color.Gray{Y: uint8(n)})
	img.SetGray(1, 1, color.Gray{Y: uint8(n >> 8)})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // not of this image
	}
	return b.Bytes()
}

func Showing(r memory.SendRequest, names ...string) memory.SendRequest {
	r.Content = agent.Content{Parts: []agent.Part{{Type: "text", Text: r.Content.String()}}}
	for _, name := range names {
		r.Content.Parts = append(r.Content.Parts, agent.Part{Type: "image_url", ImageURL: &agent.ImageURL{URL: agent.ImageScheme + name}})
	}
	return r
}

func (e *Env) Keep(n int) string { return Must(e.S.KeepImage(e.Ctx, Picture(n)))(e) }

// Show sends a message with images in a session of its own and answers it.
func (e *Env) Show(session string, names ...string) string {
	sent := Must(e.S.Send(e.Ctx, Showing(Message(session, "m1", "look"), names...)))(e)
	e.Answer(e.Take(sent.ThreadID), 1, "seen")
	return sent.ThreadID
}

func (e *Env) Remove(id string) {
	Must(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: User, ThreadID: id}))(e)
}

func (e *Env) Kept(n int, want bool) {
	name := Must(agent.ImageName(Picture(n)))(e)
	data, err := e.S.Image(e.Ctx, name)
	if !want {
		e.Code(err, agent.CodeNotFound)
		return
	}
	e.Ok(err)
	if !bytes.Equal(data, Picture(n)) {
		e.Fatalf("image %d has other bytes", n)
	}
}

// ShowAndRemove sends a message with an image that others show too, and removes its
// thread unless it is to stay. An image that somebody else removed between the two
// is refused, and kept again.
func (e *Env) ShowAndRemove(session string, stay bool) error {
	var sent memory.SendResult
	for {
		name, err := e.S.KeepImage(e.Ctx, Picture(1))
		if err != nil {
			return err
		}
		sent, err = e.S.Send(e.Ctx, Showing(Message(session, "m1", "look"), name))
		if agent.CodeOf(err) == agent.CodeInvalid {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	turn, err := e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: sent.ThreadID, RunID: "run", Config: MainConfig()})
	if err != nil {
		return err
	}
	if _, err := e.S.CloseTurn(e.Ctx, Failed(*turn.Turn, 1, agent.ReasonError)); err != nil || stay {
		return err
	}
	_, err = e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: User, ThreadID: sent.ThreadID})
	return err
}

package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/spool-agents/spool/agent"
)

// Generate makes one call and never repeats it. See agent.Model.
func (m *Model) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	model := r.Model
	if model == "" {
		model = m.cfg.Model
	}
	at := agent.ModelPlace{Provider: m.at}
	if model == "" {
		return agent.ModelReply{}, &agent.ModelError{
			Code: agent.ModelBadRequest, At: at, Message: "no model is set",
			ToDo: "set SPOOL_MODEL in the worker's environment, or a model in the agent's file",
		}
	}
	body, err := encode(model, m.quirks(model), r)
	if err != nil {
		return agent.ModelReply{}, &agent.ModelError{Code: agent.ModelBadRequest, Model: model, At: at, Message: "the request cannot be encoded: " + err.Error()}
	}
	x := &exchange{body: body, stream: r.Stream}
	if r.Meta.TurnID != "" {
		x.requestID = fmt.Sprintf("%s.%d.%d", r.Meta.TurnID, r.Meta.Step, r.Meta.Attempt)
	}
	if !r.Stream {
		onDelta = nil
	}
	reply, err := m.receive(context.WithValue(ctx, exchangeKey{}, x), model, x, onDelta)
	reply.Usage, reply.At = x.usage, at
	reply.Usage.Requests = 1
	if err == nil {
		return reply, nil
	}
	reply.Charged = x.sent.Load() && !x.refused
	if ctx.Err() != nil {
		return reply, ctx.Err()
	}
	e := asModelError(err)
	if e == nil { // go-openai's own checks
		e = &agent.ModelError{Code: agent.ModelBadRequest, Message: m.cfg.hide(err.Error())}
	}
	e.Model, e.At = model, at
	return reply, e
}

func (m *Model) quirks(model string) Quirks {
	if m.cfg.Quirks != nil {
		return *m.cfg.Quirks
	}
	return QuirksOf(m.host, model)
}

// receive reads the clean stream that wire provides, also for requests that are
// not streamed.
func (m *Model) receive(ctx context.Context, model string, x *exchange, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	// wire puts the real body in; go-openai makes the request's head only, as
	// its own checks would refuse what providers accept.
	stream, err := m.client.CreateChatCompletionStream(ctx, goopenai.ChatCompletionRequest{Model: model})
	if err != nil {
		return agent.ModelReply{}, err
	}
	defer func() { _ = stream.Close() }()
	var a assembly
	for {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return a.reply(x)
		}
		if err != nil {
			return a.arrived(x), err
		}
		if d := a.add(c); onDelta != nil && d != (agent.Delta{}) {
			if err := ctx.Err(); err != nil {
				return a.arrived(x), err
			}
			onDelta(d)
		}
	}
}

// assembly puts a reply together from clean chunks.
type assembly struct {
	text, reasoning strings.Builder
	calls           []agent.Call
	reason, model   string
}

func (a *assembly) add(c goopenai.ChatCompletionStreamResponse) agent.Delta {
	if c.Model != "" {
		a.model = c.Model
	}
	var d agent.Delta
	for _, ch := range c.Choices {
		d.Text += ch.Delta.Content
		d.Reasoning += ch.Delta.ReasoningContent
		for _, c := range ch.Delta.ToolCalls { // wire sends them whole, in order of appearance
			a.calls = append(a.calls, agent.NewCall(c.ID, c.Function.Name, c.Function.Arguments))
		}
		if ch.FinishReason != "" && ch.FinishReason != goopenai.FinishReasonNull {
			a.reason = string(ch.FinishReason)
		}
	}
	a.text.WriteString(d.Text)
	a.reasoning.WriteString(d.Reasoning)
	return d
}

// arrived is what there is of a reply that failed, for counting.
func (a *assembly) arrived(x *exchange) agent.ModelReply {
	for _, c := range x.calls {
		a.text.WriteString("\n" + c.name + " ")
		a.text.WriteString(c.text())
	}
	return agent.ModelReply{Content: strings.ToValidUTF8(a.text.String(), replacement), Reasoning: a.reasoning.String(), Model: a.model}
}

// reply checks a complete stream. Arguments that were cut are an error; a call that
// says nothing at all is none.
func (a *assembly) reply(x *exchange) (agent.ModelReply, error) {
	r := agent.ModelReply{
		Content: a.text.String(), Reasoning: a.reasoning.String(), FinishReason: a.reason, Model: a.model,
	}
	if r.FinishReason == agent.FinishLength && (len(a.calls) > 0 || r.Content == "") {
		what := "before any text"
		if len(a.calls) > 0 {
			what = "within a tool call"
		}
		return a.arrived(x), &agent.ModelError{Code: agent.ModelCutOff, Message: "the reply reached its token limit " + what}
	}
	for i, c := range a.calls {
		if c.ID+c.Function.Name == "" && x.calls[i].text() == "" {
			continue
		}
		c.Extra = agent.HarmlessJSON(x.extra[i])
		r.Calls = append(r.Calls, c)
	}
	if len(r.Calls) > 0 {
		r.FinishReason = "tool_calls" // some say "stop"
	} else if r.FinishReason == "" {
		r.FinishReason = "stop"
	}
	return r, nil
}

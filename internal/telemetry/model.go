package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// ModelCall is an attempt of a model call.
type ModelCall struct {
	Thread  agent.Thread
	TurnID  string
	Step    int
	Attempt int
	Request agent.ModelRequest
	// Purpose is "" for steps of a turn; summaries name their cause.
	Purpose string
}

type attempt struct {
	t            *Telemetry
	ctx          context.Context
	turn         string
	span         trace.Span
	began, ended time.Time
}

// displaced reports whether an attempt ended because another one of an open turn is
// current: that one reports it as lost.
func (a *attempt) displaced(err error) bool {
	if agent.CodeOf(err) != agent.CodeStale {
		return false
	}
	turn, terr := a.t.o.Store.Turn(context.WithoutCancel(a.ctx), a.turn)
	return terr == nil && turn.State == memory.TurnOpen
}

// Model is a model call under way.
type Model struct {
	attempt
	call  ModelCall
	reply agent.ModelReply
	err   error
}

// Model begins an attempt of a model call; End has to follow. What is called with
// the context it returns stands below it in the trace.
func (t *Telemetry) Model(ctx context.Context, c ModelCall) (context.Context, *Model) {
	if t == nil {
		return ctx, nil
	}
	m := &Model{attempt: attempt{t: t, ctx: ctx, turn: c.TurnID, began: time.Now()}, call: c}
	ctx, m.span = t.startModel(ctx, c, m.began)
	return ctx, m
}

// LostModel reports an attempt that its worker did not survive. since is about when
// it began.
func (t *Telemetry) LostModel(ctx context.Context, c ModelCall, since time.Time) {
	if t == nil {
		return
	}
	_, span := t.startModel(ctx, c, since)
	finish(span, time.Now(), errLost)
	t.meters.retried(ctx, opChat, errLost)
}

func (t *Telemetry) startModel(ctx context.Context, c ModelCall, at time.Time) (context.Context, trace.Span) {
	p, r := t.place(ctx, c.TurnID, c.Thread), c.Request
	model, provider := t.names(c)
	kv := append(p.attributes(), keyOperation.String(opChat), keyProvider.String(provider), keyModel.String(model),
		keyStep.Int(c.Step), keyAttempt.Int(c.Attempt))
	if c.Purpose != "" {
		kv = append(kv, keyPurpose.String(c.Purpose))
	}
	kv = optional(optional(optional(kv, keyTemperature.Float64, r.Temperature), keyTopP.Float64, r.TopP), keyMaxTokens.Int, r.MaxTokens)
	id := spanID(spanModel, c.TurnID, strconv.Itoa(c.Step), c.Purpose, strconv.Itoa(c.Attempt))
	return t.tracer.start(ctx, opChat+" "+model, p.trace(), id, p.self(),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(at), trace.WithAttributes(kv...))
}

// optional adds an attribute that is set.
func optional[T any](kv []attribute.KeyValue, attribute func(T) attribute.KeyValue, value *T) []attribute.KeyValue {
	if value == nil {
		return kv
	}
	return append(kv, attribute(*value))
}

// names are the model and the provider that it names, as "model@provider" does.
func (t *Telemetry) names(c ModelCall) (model, provider string) {
	model, provider = c.Request.Model, c.Request.Provider
	// There is no table of providers here: what is named counts.
	var named *agent.UnknownProvider
	if _, err := agent.RouteModel[struct{}](model, "", nil); errors.As(err, &named) {
		provider = named.Provider
	}
	return model, cmp.Or(provider, t.o.Provider)
}

// Answered notes what the model answered, or how it failed.
func (m *Model) Answered(reply agent.ModelReply, err error) {
	if m != nil {
		m.ended, m.reply, m.err = time.Now(), reply, err
	}
}

// End reports the call once its reply is stored, or is not: err says. An attempt
// that was displaced is reported by its successor, so displaced ones are dropped, as
// are those that were held back and made no call.
func (m *Model) End(err error) {
	if m == nil || m.displaced(err) {
		return
	}
	if m.ended.IsZero() {
		m.Answered(agent.ModelReply{}, err)
	}
	var e *agent.ModelError
	if errors.As(m.err, &e) && e.NotCalled {
		return
	}
	why := errorType(m.err)
	use := m.reply.Usage
	model, provider := m.t.names(m.call)
	labels := []attribute.KeyValue{keyOperation.String(opChat), keyProvider.String(provider), keyModel.String(model)}
	var kv []attribute.KeyValue
	if m.reply.Model != "" {
		labels = append(labels, keyAnswered.String(m.reply.Model))
		kv = append(kv, keyAnswered.String(m.reply.Model))
	}
	m.t.meters.tokens(m.ctx, use, labels)
	if why != "" {
		labels = append(labels, keyError.String(why))
	}
	m.t.meters.model.Record(m.ctx, m.ended.Sub(m.began).Seconds(), metric.WithAttributes(labels...))
	if m.reply.FinishReason != "" {
		kv = append(kv, keyFinish.StringSlice([]string{m.reply.FinishReason}))
	}
	if use.PromptTokens > 0 || use.CompletionTokens > 0 {
		kv = append(kv, keyIn.Int64(use.PromptTokens), keyOut.Int64(use.CompletionTokens))
	}
	if use.CachedTokens > 0 {
		kv = append(kv, keyCached.Int64(use.CachedTokens))
	}
	if n := len(m.reply.Calls); n > 0 {
		kv = append(kv, keyCalls.Int(n))
	}
	if m.t.o.Content && m.span.IsRecording() {
		kv = append(kv, keyInput.String(messagesJSON(m.call.Request.Messages)), keyOutput.String(replyJSON(m.reply)))
	}
	finish(m.span, m.ended, why, kv...)
}

// The form in which messages stand in attributes is that of the semantic
// conventions: a JSON array of messages with parts.
type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

func messagesJSON(messages []agent.Message) string {
	out := make([]message, 0, len(messages))
	for _, m := range messages {
		c := message{Role: string(m.Role)}
		if text := m.Content.String(); m.Role == agent.RoleTool {
			c.Parts = append(c.Parts, part{Type: "tool_call_response", ID: m.ToolCallID, Response: text})
		} else if text != "" {
			c.Parts = append(c.Parts, part{Type: "text", Content: text})
		}
		c.Parts = append(c.Parts, callParts(m.ToolCalls)...)
		out = append(out, c)
	}
	return asJSON(out)
}

func replyJSON(r agent.ModelReply) string {
	c := message{Role: string(agent.RoleAssistant), Finish: r.FinishReason}
	if r.Content != "" {
		c.Parts = append(c.Parts, part{Type: "text", Content: r.Content})
	}
	c.Parts = append(c.Parts, callParts(r.Calls)...)
	return asJSON([]message{c})
}

func callParts(calls []agent.Call) (parts []part) {
	for _, c := range calls {
		args := json.RawMessage(c.Function.Arguments)
		if !json.Valid(args) {
			args, _ = json.Marshal(c.Function.Arguments) // a string always can be
		}
		parts = append(parts, part{Type: "tool_call", ID: c.ID, Name: c.Function.Name, Arguments: args})
	}
	return parts
}

func asJSON(v any) string {
	b, _ := json.Marshal(v) // of strings and valid JSON
	return string(b)
}

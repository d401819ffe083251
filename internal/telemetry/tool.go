package telemetry

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/spool-agents/spool/agent"
)

// ToolCall is an attempt of a tool run.
type ToolCall struct {
	Thread  agent.Thread
	Call    agent.ToolCall
	Attempt int
	// Known means that the tool's name is ours and not a model's invention.
	Known bool
}

// Tool is a tool run under way.
type Tool struct {
	attempt
	call   ToolCall
	result agent.ToolResult
}

// Tool begins a tool run; End has to follow. What the tool does with the context it
// returns stands below it in the trace.
func (t *Telemetry) Tool(ctx context.Context, c ToolCall) (context.Context, *Tool) {
	if t == nil {
		return ctx, nil
	}
	r := &Tool{attempt: attempt{t: t, ctx: ctx, turn: c.Call.TurnID, began: time.Now()}, call: c}
	ctx, r.span = t.startTool(ctx, c, r.began)
	return ctx, r
}

// LostTool reports an attempt that its worker did not survive.
func (t *Telemetry) LostTool(ctx context.Context, c ToolCall, since time.Time) {
	if t == nil {
		return
	}
	now := time.Now()
	_, span := t.startTool(ctx, c, since)
	finish(span, now, errLost)
	t.meters.toolTime(ctx, now.Sub(since), c.name(), errLost)
	t.meters.retried(ctx, opTool, errLost)
}

func (t *Telemetry) startTool(ctx context.Context, c ToolCall, at time.Time) (context.Context, trace.Span) {
	p := t.place(ctx, c.Call.TurnID, c.Thread)
	id := spanID(spanTool, c.Call.ID, strconv.Itoa(c.Attempt))
	return t.tracer.start(ctx, opTool+" "+c.name(), p.trace(), id, p.self(), trace.WithTimestamp(at),
		trace.WithAttributes(append(toolAttributes(p, c.Call, c.name()), keyAttempt.Int(c.Attempt))...))
}

func (c ToolCall) name() string {
	if c.Known {
		return c.Call.ToolName
	}
	return unknown
}

func toolAttributes(p place, c agent.ToolCall, name string) []attribute.KeyValue {
	return append(p.attributes(), keyOperation.String(opTool), keyTool.String(name), keyCall.String(c.ID),
		keyToolType.String("function"), keyStep.Int(c.Step))
}

// Ended notes the tool's result.
func (r *Tool) Ended(result agent.ToolResult) {
	if r != nil {
		r.ended, r.result = time.Now(), result
	}
}

// End reports the run once its result is stored, or is not: err says.
func (r *Tool) End(err error) {
	if r == nil || r.displaced(err) {
		return
	}
	if r.ended.IsZero() {
		r.ended = time.Now()
	}
	status, why := string(r.result.Status), ""
	switch {
	case err != nil:
		status, why = string(agent.CallAborted), errorType(err)
	case r.result.Status != agent.CallSuccess:
		why = cmp.Or(string(r.result.ErrorReason), string(r.result.Status))
	}
	kv := []attribute.KeyValue{keyStatus.String(status)}
	if r.t.o.Content && r.span.IsRecording() {
		kv = append(kv, keyArguments.String(string(r.call.Call.Args)), keyResult.String(r.result.Content))
	}
	r.t.meters.toolTime(r.ctx, r.ended.Sub(r.began), r.call.name(), status)
	finish(r.span, r.ended, why, kv...)
}

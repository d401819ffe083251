package telemetry

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// TurnClosed reports a turn that a worker has closed, and those below it that were
// closed along. It returns at once: what a span holds is read from the store later,
// since a turn may have begun in another process, days ago.
//
// A close that finds the turn closed reports nothing. The close of a completed turn is
// repeated by Temporal where the process that closed it died in that very moment, or
// was slow: the spans, whose ids are the same, are sent again, and nothing is counted
// again.
func (t *Telemetry) TurnClosed(threadID, turnID string, asked agent.ThreadStatus, c memory.Closed) {
	if t == nil {
		return
	}
	if !c.Already || asked == agent.ThreadCompleted && c.Outcome == agent.ThreadCompleted {
		t.end(threadID, turnID, c.Already)
	}
	if c.Already {
		return
	}
	for _, s := range c.Stopped {
		t.end(s.ThreadID, s.TurnID, false)
	}
}

// end reports the end of a turn, once by this process. again: another process has
// probably counted it.
func (t *Telemetry) end(threadID, turnID string, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.ended[turnID]; known {
		return
	}
	if len(t.ended) >= mostRoots {
		clear(t.ended)
	}
	t.ended[turnID] = struct{}{}
	t.later(func(ctx context.Context) { t.turnEnded(ctx, threadID, turnID, again) })
}

func (t *Telemetry) turnEnded(ctx context.Context, threadID, turnID string, again bool) {
	turn, err := t.o.Store.Turn(ctx, turnID)
	if err != nil || turn.ClosedAt == nil {
		return
	}
	thread, err := t.o.Store.Thread(ctx, "", threadID)
	if err != nil {
		return
	}
	p := t.place(ctx, turnID, thread)
	if !again {
		set := metric.WithAttributes(keyOutcome.String(string(turn.Outcome)), keyReason.String(string(turn.Reason)),
			keyKind.String(string(thread.Kind)), keyAgentName.String(agentName(thread)))
		t.meters.turns.Add(ctx, 1, set)
		t.meters.turnTime.Record(ctx, turn.ClosedAt.Sub(turn.OpenedAt).Seconds(), set)
	}
	parent, links := t.ordered(ctx, p, turn)
	t.turnSpan(ctx, p, turn, parent, links)
	t.waits(ctx, p, turn)
}

// turnSpan is the turn as a whole, from its claim to its close.
func (t *Telemetry) turnSpan(ctx context.Context, p place, turn memory.Turn, parent trace.SpanID, links []trace.Link) {
	kv := append(p.attributes(), keyOperation.String(opAgent), keyOutcome.String(string(turn.Outcome)), keyKind.String(string(p.thread.Kind)),
		keyIn.Int64(turn.Usage.PromptTokens), keyOut.Int64(turn.Usage.CompletionTokens), keyCalls.Int64(turn.Usage.ToolCalls))
	if turn.Reason != "" {
		kv = append(kv, keyReason.String(string(turn.Reason)))
	}
	_, span := t.tracer.start(ctx, opAgent+" "+agentName(p.thread), p.trace(), p.self(), parent,
		trace.WithTimestamp(turn.OpenedAt), trace.WithLinks(links...), trace.WithAttributes(kv...))
	finish(span, *turn.ClosedAt, turnError(turn))
}

// turnError is why a turn failed, "" if it did not.
func turnError(turn memory.Turn) string {
	if turn.Outcome == agent.ThreadCompleted {
		return ""
	}
	return cmp.Or(turn.ErrorCode, string(turn.Reason), string(turn.Outcome))
}

// ordered makes the span of what ordered a turn: the message, with the time it waited
// in the inbox, or the call of assign_task. It returns that span and links to turns
// of other traces.
func (t *Telemetry) ordered(ctx context.Context, p place, turn memory.Turn) (trace.SpanID, []trace.Link) {
	if turn.DelegatorCall != "" {
		t.delegation(ctx, p.root, turn)
		return spanID(spanCall, turn.DelegatorCall), nil
	}
	id := spanID(spanMessage, turn.ID)
	kv := append(p.attributes(), keyMessage.String(turn.MessageID))
	var links []trace.Link
	since := turn.OpenedAt
	if entry, err := t.o.Store.Entry(ctx, turn.ThreadID, turn.EntryKind, turn.MessageID); err == nil {
		since = entry.CreatedAt
		if child := entry.ChildTurn; child != "" {
			links = append(links, t.link(ctx, child))
		}
	}
	if turn.RetryOf != "" {
		links = append(links, t.link(ctx, turn.RetryOf))
	}
	_, span := t.tracer.start(ctx, string(turn.EntryKind), p.trace(), id, trace.SpanID{},
		trace.WithTimestamp(since), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(kv...))
	finish(span, turn.OpenedAt, "")
	return id, links
}

func (t *Telemetry) link(ctx context.Context, turnID string) trace.Link {
	p := t.place(ctx, turnID, agent.Thread{})
	return trace.Link{
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: p.trace(), SpanID: p.self(), TraceFlags: trace.FlagsSampled, Remote: true}),
		Attributes:  []attribute.KeyValue{keyTurn.String(turnID)},
	}
}

// delegation is the call of assign_task that ordered a sub-agent's turn. It is sent
// with that turn, so that one never stands without the other.
func (t *Telemetry) delegation(ctx context.Context, root string, turn memory.Turn) {
	call, above, ok := t.callOf(ctx, turn.DelegatorCall)
	if !ok {
		return
	}
	end, status, why := *turn.ClosedAt, agent.CallSuccess, turnError(turn)
	switch {
	case turn.Background: // the call has its result at once
		if why = ""; call.Status.Final() {
			end = call.UpdatedAt
		}
	case why != "":
		status = agent.CallFailed
	}
	t.callSpan(ctx, place{root: root, turn: call.TurnID, thread: above}, call, call.CreatedAt, end, status, why)
}

func (t *Telemetry) callOf(ctx context.Context, callID string) (agent.ToolCall, agent.Thread, bool) {
	call, err := t.o.Store.ToolCall(ctx, callID)
	if err != nil {
		return call, agent.Thread{}, false
	}
	thread, err := t.o.Store.Thread(ctx, "", call.ThreadID)
	return call, thread, err == nil
}

// callSpan is a call that no activity runs: of assign_task or ask_user.
func (t *Telemetry) callSpan(ctx context.Context, p place, call agent.ToolCall, since, end time.Time, status agent.CallStatus, why string) {
	kv := append(toolAttributes(p, call, call.ToolName), keyStatus.String(string(status)))
	if t.o.Content {
		kv = append(kv, keyArguments.String(string(call.Args)), keyResult.String(call.Result))
	}
	_, span := t.tracer.start(ctx, opTool+" "+call.ToolName, p.trace(), spanID(spanCall, call.ID), p.self(),
		trace.WithTimestamp(since), trace.WithAttributes(kv...))
	finish(span, end, why)
	t.meters.toolTime(ctx, end.Sub(since), call.ToolName, string(status))
}

// waits are the times that a turn waited for people.
func (t *Telemetry) waits(ctx context.Context, p place, turn memory.Turn) {
	if turn.WaitedMs == 0 {
		return // nothing was asked
	}
	approvals, err := t.o.Store.Approvals(ctx, memory.ApprovalFilter{ThreadID: p.thread.ID})
	if err != nil {
		return
	}
	for _, a := range approvals {
		if a.TurnID != turn.ID || a.DecidedAt == nil {
			continue
		}
		_, span := t.tracer.start(ctx, "approval", p.trace(), spanID(spanApproval, a.ID), p.self(), trace.WithTimestamp(a.CreatedAt),
			trace.WithAttributes(append(p.attributes(), keyStep.Int(a.Step), keyStatus.String(a.Decision), keyCalls.Int(len(a.ToolCalls)))...))
		finish(span, *a.DecidedAt, "")
	}
	questions, err := t.o.Store.Questions(ctx, memory.QuestionFilter{ThreadID: p.thread.ID})
	if err != nil {
		return
	}
	for _, q := range questions {
		if q.TurnID != turn.ID {
			continue
		}
		call, err := t.o.Store.ToolCall(ctx, q.CallID)
		if err != nil {
			continue
		}
		why := ""
		if q.State != memory.QuestionAnswered {
			why = string(q.State)
		}
		t.callSpan(ctx, p, call, q.CreatedAt, call.UpdatedAt, call.Status, why)
	}
}

package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// CallModel makes one model call, unless its reply is stored already, and stores
// the reply before it returns (save point 1b).
func (a *Activities) CallModel(ctx context.Context, ref contract.Ref) (contract.ModelOutput, error) {
	ctx, stop := a.alive(ctx, ref.Turn, false)
	defer stop()
	out, err := a.callModel(ctx, here(ctx, ref))
	return out, a.wire(ctx, ref.Turn, err)
}

func (a *Activities) callModel(ctx context.Context, ref contract.Ref) (_ contract.ModelOutput, err error) {
	begun, err := a.Store.BeginModel(ctx, memory.ModelBegin{
		ThreadID: ref.Thread, TurnID: ref.Turn, Step: ref.Step, Fence: fence(ctx), Worker: a.worker,
		Budget: a.budget(),
	})
	if errors.Is(err, memory.ErrBudgetReserved) {
		return contract.ModelOutput{}, waiting(err.Error(), lastLook)
	}
	if err != nil {
		return contract.ModelOutput{}, err
	}
	if begun.Wait > 0 {
		return contract.ModelOutput{}, waiting("the turn's workers died too often of late", begun.Wait)
	}
	if begun.Stored != nil {
		return a.output(begun.Thread, *begun.Stored), nil
	}
	if missing := begun.Thread.Config.Missing; missing != "" {
		return contract.ModelOutput{Seq: begun.Thread.MessageCount, End: agent.ReasonError, Code: agent.CodeUnknownAgent, Message: missing}, nil
	}
	if _, err := a.place(begun.Thread); err != nil {
		return contract.ModelOutput{Seq: begun.Thread.MessageCount, End: agent.ReasonError, Code: string(agent.CodeOf(err)), Message: err.Error()}, nil
	}
	conversation, err := a.transcripts.load(ctx, a.Store, ref, begun.Thread)
	if err != nil {
		return contract.ModelOutput{}, err
	}
	if end, stuck := stuck(ref, conversation.Own); stuck {
		if looks, err := a.looksAfter(ctx, ref.Thread, conversation.Own); err != nil || !looks {
			end.Seq = begun.Thread.MessageCount
			return end, err
		}
	}
	request, err := a.request(ctx, begun, conversation)
	if err != nil {
		return contract.ModelOutput{}, err
	}
	a.lostModel(ctx, ref, begun, request)
	var fitted fitting
	if a.modelInfo(request.Model).NoImages && agent.HasImages(request.Messages) {
		err = &noImages{model: request.Model}
	} else {
		fitted, err = a.fit(ctx, ref, &request, conversation, begun.Thread.NoImages)
	}
	if err != nil {
		return contract.ModelOutput{}, a.modelFailed(ctx, ref, begun, request, failedCall{err: err})
	}
	if begun.LastCode == agent.ModelAnswerInvalid {
		repair := agent.Message{Role: agent.RoleUser, Content: agent.Text(agent.RepairAnswer(begun.LastErr))}
		request.Messages, fitted.sent = append(request.Messages, repair), fitted.sent+agent.MessageTokens(repair)
	}
	began := time.Now()
	ctx, span := a.Telemetry.Model(ctx, modelCall(ref, begun, request, begun.Attempt))
	defer func() { span.End(err) }()
	request.Calling = func() { began = time.Now() } // what was waited before is no time of the model
	reply, err := a.generate(ctx, ref, begun, request, fitted.sent)
	at := reply.At
	reported := reply.Usage
	if err == nil {
		err = checkAnswer(begun, &reply)
	}
	reply.Usage = a.price(request.Model, a.counted(request, reply, err)) // what is refused or broke off was paid for, too
	span.Answered(reply, err)
	if err != nil {
		switch e := (*agent.ModelError)(nil); {
		case !errors.As(err, &e):
		case e.NoImages && agent.HasImages(request.Messages):
			err = &noImages{request.Model, e}
		case e.Code == agent.ModelContextTooLong:
			err = a.refused(ctx, ref, request, conversation, e)
		}
		return contract.ModelOutput{}, a.modelFailed(ctx, ref, begun, request, failedCall{err, at, reply.Usage, time.Since(began), fitted.tight})
	}
	record := memory.ReplyRecord{
		ThreadID: ref.Thread, TurnID: ref.Turn, Step: ref.Step, Attempt: begun.Attempt, Duration: time.Since(began),
		Warnings: slices.Concat(a.once(ref, fitted.tight), fitted.shortened, a.truncated(ref, request, fitted.sent, reported)),
	}
	record.Reply = reply
	if reply.FinishReason == agent.FinishLength && len(reply.Calls) == 0 {
		record.Warnings = append(record.Warnings, agent.AnswerCut())
	}
	record.Warnings = append(record.Warnings, writtenAsText(request.Tools, reply)...)
	a.judge(ctx, begun.Thread, request.Tools, &record)
	stored, err := a.Store.SaveReply(ctx, record)
	if err != nil {
		return contract.ModelOutput{}, err
	}
	return a.output(begun.Thread, stored), nil
}

// stuck is the end of a turn that does the same again and again, and true.
func stuck(ref contract.Ref, own []agent.Message) (contract.ModelOutput, bool) {
	switch {
	case agent.Looping(own, ref.Turn):
		return contract.ModelOutput{End: agent.ReasonLimit, Code: "loop", Message: fmt.Sprintf(
			"the model made the same call with the same result %d times in a row (%s); a message that says what to do instead goes on", agent.LoopLength, lastCalls(own))}, true
	case agent.OnlyRefused(own, ref.Turn):
		return contract.ModelOutput{End: agent.ReasonLimit, Code: "delegation_refused",
			Message: "the model did nothing but delegate five times in a row, and each time it was refused"}, true
	}
	return contract.ModelOutput{}, false
}

// looksAfter reports whether the last round of a thread did nothing but look after
// sub-agents of which one is at work: that is no loop, however often.
func (a *Activities) looksAfter(ctx context.Context, thread string, own []agent.Message) (bool, error) {
	for _, m := range slices.Backward(own) {
		if m.Role == agent.RoleTool && m.Name != agent.ToolTaskOutput {
			return false, nil
		}
		if m.Role != agent.RoleTool {
			break
		}
	}
	states, err := a.taskStates(ctx, thread, "")
	return slices.ContainsFunc(states, agent.TaskState.Working), err
}

func lastCalls(messages []agent.Message) string {
	for _, m := range slices.Backward(messages) {
		var calls []string
		for _, c := range m.ToolCalls {
			calls = append(calls, summarise(c.Function.Name, json.RawMessage(c.Function.Arguments)))
		}
		if len(calls) > 0 {
			return strings.Join(calls, ", ")
		}
	}
	return ""
}

func (a *Activities) output(t agent.Thread, stored memory.StoredReply) contract.ModelOutput {
	return contract.ModelOutput{Seq: t.MessageCount, Tokens: stored.Reply.Usage.TotalTokens, Calls: a.calls(stored.Calls)}
}

// mostCalls bounds the calls of a reply. Each is an activity, and with more than 2,000 that
// are open Temporal takes no further step of a workflow.
const mostCalls = 500

// generate streams one attempt into the store. A stale chunk means that this
// attempt was displaced, so it stops. sent is our count of the request.
func (a *Activities) generate(ctx context.Context, ref contract.Ref, begun memory.ModelStart, request agent.ModelRequest, sent int) (agent.ModelReply, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := newStream(a.Store, memory.Chunk{ThreadID: ref.Thread, TurnID: ref.Turn, Step: ref.Step, Attempt: begun.Attempt, Stake: a.stake(request, sent)}, stop)
	request.Meta = agent.CallMeta{StoreID: a.Store.ID(), ThreadID: ref.Thread, TurnID: ref.Turn, Step: ref.Step, Attempt: begun.Attempt}
	reply, err := a.Model.Generate(ctx, request, s.add)
	if err != nil || len(reply.Calls) > 0 {
		// A final answer is about to be stored whole; everything else is what a
		// reader has until the round ends.
		s.close()
	} else {
		s.discard()
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && agent.CodeOf(cause) == agent.CodeStale {
			return reply, cause
		}
		return reply, err
	}
	if len(reply.Calls) == 0 && strings.TrimSpace(reply.Content) == "" {
		reply.Charged = true
		return reply, &agent.ModelError{
			Code: agent.ModelBadResponse, Retryable: true, Class: agent.ClassEmpty,
			Message: "the model answered with neither text nor a tool call",
		}
	}
	if n := len(reply.Calls); n > mostCalls {
		reply.Charged = true
		return reply, &agent.ModelError{
			Code: agent.ModelBadResponse, Message: fmt.Sprintf("one reply has %d tool calls, at most %d are run", n, mostCalls),
			ToDo: "have the model make fewer calls at a time",
		}
	}
	reply.Content = agent.CleanText(reply.Content)
	reply.Reasoning = agent.CleanText(reply.Reasoning)
	return reply, nil
}

// failedCall is how a call ended that failed. What was used is counted.
type failedCall struct {
	err  error
	at   agent.ModelPlace // where it was made, if that is known
	used agent.Usage
	took time.Duration
	// tight may be why it failed.
	tight []agent.Warning
}

// modelFailed records what a failed attempt cost, also when its turn is cancelled:
// should the close of the turn come first, it counts the attempt itself.
func (a *Activities) modelFailed(ctx context.Context, ref contract.Ref, begun memory.ModelStart, r agent.ModelRequest, c failedCall) error {
	err := c.err
	var me *agent.ModelError
	var full *contextFull
	var blind *noImages
	failure := memory.ModelFailure{
		ThreadID: ref.Thread, TurnID: ref.Turn, Step: ref.Step, Attempt: begun.Attempt, Duration: c.took, Usage: c.used,
		Code: "stopped", Message: err.Error(),
	}
	errors.As(err, &full)
	if errors.As(err, &blind) {
		failure.NoImages, failure.Warnings = blind.model, blind.warnings()
	}
	switch {
	case ctx.Err() != nil && handsOver(ctx) == nil:
		err, failure.NotCalled = ctx.Err(), c.used.Requests == 0
	case errors.As(err, &me):
		if me.InARow = 1; me.Class == begun.LastClass { // without another end in between
			me.InARow += begun.InARow
		}
		me.Model, me.At = cmp.Or(me.Model, r.Model), cmp.Or(me.At, c.at)
		failure.Code, failure.Message, failure.Class = me.Code, me.Error(), me.Class
		if me.NotCalled {
			// What it waited for in vain was no time of the model.
			failure.NotCalled, failure.Duration, c.took = true, 0, 0
		}
		t := a.tried(begun, c, me.NotCalled)
		exhausted := a.exhausted(t, me)
		if me.Code == agent.ModelAnswerInvalid {
			failure.Message = me.Message // what the model reads
		}
		if full != nil || blind != nil {
			break // the same model is called again, otherwise
		}
		if next := a.fallback(begun.Turn, r, me, exhausted); next != "" {
			said := fmt.Sprintf("%s goes on in place of %s: %v", next, r.Model, agent.Shorten(err.Error(), mostSaid, ""))
			failure.Fallback, failure.Warnings = next, []agent.Warning{{Code: agent.WarnFallback, Message: said}}
			err = &otherModel{next}
		} else if !exhausted {
			later := later(me, t, a.fallback(begun.Turn, r, me, true))
			failure.Wait, err = later.wait, later
		}
	case full != nil:
		failure.Code, failure.NotCalled = "context_full", true
	case blind != nil:
		failure.Code, failure.NotCalled = "no_images", true
	case agent.CodeOf(err) == agent.CodeStale:
		return err
	}
	failure.Warnings = slices.Concat(a.once(ref, c.tight), failure.Warnings)
	if ferr := a.Store.FailModel(context.WithoutCancel(ctx), failure); ferr != nil && agent.CodeOf(ferr) == agent.CodeStale {
		return ferr
	}
	return err
}

package activities

import (
	"context"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// OpenQuestion puts what a call of ask_user asks to a person, or stores why not
// as the call's result. Repeated, it tells whether there is an answer.
func (a *Activities) OpenQuestion(ctx context.Context, ref contract.Ref) (out contract.QuestionOutput, err error) {
	call, err := a.Store.ToolCall(ctx, ref.Call)
	if err != nil || call.Status.Final() {
		return contract.QuestionOutput{Done: err == nil}, err
	}
	thread, err := a.Store.Thread(ctx, "", ref.Thread)
	if err != nil {
		return out, err
	}
	refuse := func(reason agent.ErrorReason, format string, args ...any) (contract.QuestionOutput, error) {
		return contract.QuestionOutput{Done: true}, a.Store.SaveResult(ctx, memory.ToolOutcome{
			ThreadID: ref.Thread, TurnID: ref.Turn, CallID: ref.Call, Result: agent.ToolFailed(reason, format, args...),
		})
	}
	if !agent.MayUse(thread.Config.Tools, call.ToolName) {
		return refuse(agent.ErrToolNotFound, "there is no tool %q among this agent's tools", call.ToolName)
	}
	params, err := agent.ParseAskUserParams(call.Args)
	if err != nil {
		return refuse(agent.ErrInvalidInput, "%v", err)
	}
	// The questions of a reply are opened in its order, whichever of its calls runs first.
	state, err := a.Store.StepState(ctx, memory.RoundRequest{ThreadID: ref.Thread, TurnID: ref.Turn, Step: call.Step})
	if err != nil {
		return out, err
	}
	asked, err := a.Store.Questions(ctx, memory.QuestionFilter{ThreadID: ref.Thread, OpenOnly: true})
	if err != nil {
		return out, err
	}
	for _, c := range state.Calls[:call.Index] {
		before, err := agent.ParseAskUserParams(c.Args)
		if err != nil || c.ToolName != call.ToolName || c.Gate != call.Gate || c.Status != agent.CallPending ||
			slices.ContainsFunc(asked, func(q memory.Question) bool { return q.CallID == c.ID }) {
			continue
		}
		if _, err := a.openQuestion(ctx, ref, c.ID, before); err != nil {
			return out, err
		}
	}
	q, err := a.openQuestion(ctx, ref, call.ID, params)
	return contract.QuestionOutput{Done: err == nil && q.State != memory.QuestionOpen, SinceMs: q.CreatedAt.UnixMilli()}, err
}

func (a *Activities) openQuestion(ctx context.Context, ref contract.Ref, call string, p agent.AskUserParams) (memory.Question, error) {
	return a.Store.OpenQuestion(ctx, memory.QuestionRequest{ThreadID: ref.Thread, TurnID: ref.Turn, CallID: call, Text: p.Question, Options: p.Options})
}

// QuestionState tells whether a question has its answer.
func (a *Activities) QuestionState(ctx context.Context, ref contract.Ref) (contract.QuestionOutput, error) {
	call, err := a.Store.ToolCall(ctx, ref.Call)
	if err != nil || call.Status.Final() {
		return contract.QuestionOutput{Done: err == nil}, err
	}
	turn, err := a.Store.Turn(ctx, ref.Turn)
	return contract.QuestionOutput{Cancelled: err == nil && turn.CancelRequested != nil}, err
}

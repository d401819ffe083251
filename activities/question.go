package activities

import (
	"context"

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
	q, err := a.Store.OpenQuestion(ctx, memory.QuestionRequest{ThreadID: ref.Thread, TurnID: ref.Turn, CallID: ref.Call, Text: params.Question, Options: params.Options})
	return contract.QuestionOutput{Done: err == nil && q.State != memory.QuestionOpen, SinceMs: q.CreatedAt.UnixMilli()}, err
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

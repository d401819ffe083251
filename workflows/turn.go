package workflows

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
)

// modelTimeout bounds one attempt of a model call. A silent model is noticed by
// the idle timeout of the activity long before.
const modelTimeout = 2 * time.Hour

// turn drives the claimed turn step by step and closes it. It returns nil if the
// turn was found closed, and an error to continue as new.
func (r *run) turn() (*contract.CloseOutput, error) {
	for step := r.claim.Step; ; step++ {
		if r.stop == "" && r.ctx.Err() == nil && r.full() { // a cancel does not follow a continue-as-new
			return nil, r.again(r.carry())
		}
		closed, err := r.step(step)
		switch {
		case errors.Is(err, errStale):
			return nil, nil
		case errors.Is(err, errCancelled):
			closed, err = r.cancelled(step)
			if errors.Is(err, errStale) {
				return nil, nil
			}
			return closed, err
		case err != nil || closed != nil:
			return closed, err
		}
	}
}

// step makes one model call and, if it asks for tools, runs its round. A close
// ends the turn.
func (r *run) step(step int) (*contract.CloseOutput, error) {
	if r.stop != "" {
		return nil, errCancelled
	}
	r.details.step = step
	r.show()
	if limit := r.claim.MaxSteps; limit > 0 && step > limit {
		return r.fail(step, agent.ReasonLimit, "max_steps", fmt.Sprintf("the turn reached its limit of %d steps", limit))
	}
	out, err := r.callModel(step)
	if err != nil {
		return r.failed(step, err)
	}
	r.seq = out.Seq
	r.details.tokens += out.Tokens
	if out.End != "" {
		return r.fail(step, out.End, out.Code, out.Message)
	}
	if len(out.Calls) == 0 {
		return r.close(contract.SaveFinalAnswer, fmt.Sprintf("answer, seq %d", r.seq+1),
			contract.CloseInput{Ref: r.ref(step), Outcome: agent.ThreadCompleted})
	}
	return r.round(step, out.Calls)
}

// mostCalls bounds how often a step calls its model again: after a summary, of
// which the activities make two at most, or with the next fallback model.
const mostCalls = 20

// callModel makes a step's model call. An attempt that finds the context full, or
// its model out of order, says what has to be done before the next.
func (r *run) callModel(step int) (contract.ModelOutput, error) {
	ref := r.ref(step)
	r.calling = true
	defer func() {
		r.calling = false
		r.providerWaits("")
	}()
	for calls := 1; ; calls++ {
		out, err := await[contract.ModelOutput](r, r.regular(contract.CallModel, r.callSummary(step), modelTimeout, ref))
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || calls == mostCalls {
			return out, err
		}
		switch app.Type() {
		case contract.ErrTypeFallback:
			_ = app.Details(&r.details.model) // which one is only shown
		case contract.ErrTypeContext:
			in := contract.SummaryInput{Ref: ref}
			if derr := app.Details(&in.Need); derr != nil {
				return out, err
			}
			if _, err := await[contract.SummaryOutput](r, r.regular(contract.SummarizeContext, "step "+strconv.Itoa(step)+", "+in.Need.Cause, modelTimeout, in)); err != nil {
				return out, err
			}
		default:
			return out, err
		}
	}
}

func (r *run) callSummary(step int) string {
	if r.details.model == "" {
		return fmt.Sprintf("step %d", step)
	}
	return fmt.Sprintf("step %d: %s, %d messages", step, r.details.model, r.seq)
}

func (r *run) ref(step int) contract.Ref {
	return contract.Ref{Turn: r.claim.Turn, Step: step}
}

// failed closes the turn for an error that no retry will mend.
func (r *run) failed(step int, err error) (*contract.CloseOutput, error) {
	if errors.Is(err, errStale) || errors.Is(err, errCancelled) || workflow.IsContinueAsNewError(err) {
		return nil, err
	}
	code, message, reason := "internal", err.Error(), agent.ReasonError
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		message = app.Message()
		var detail string
		if app.HasDetails() && app.Details(&detail) == nil {
			code = detail
		}
		if app.Type() == contract.ErrTypeLimit {
			reason = agent.ReasonLimit
		}
	case errors.As(err, &timeout):
		code, reason = "timeout", agent.ReasonTimeout
	}
	return r.fail(step, reason, code, message)
}

func (r *run) fail(step int, reason agent.Reason, code, message string) (*contract.CloseOutput, error) {
	return r.close(contract.CloseTurn, code, contract.CloseInput{
		Ref: r.ref(step), Outcome: agent.ThreadFailed, Reason: reason, Code: code, Message: message,
	})
}

// cancelled closes a turn that was stopped, by a person or by its deadline.
func (r *run) cancelled(step int) (*contract.CloseOutput, error) {
	if r.stop == agent.ThreadFailed {
		limit := time.Duration(r.claim.TimeoutMs) * time.Millisecond
		return r.fail(step, agent.ReasonTimeout, "timeout", fmt.Sprintf("the turn took longer than its limit of %s", limit))
	}
	if r.stopTurn != nil {
		r.stopTurn()
	}
	return r.close(contract.CloseTurn, "cancelled", contract.CloseInput{
		Ref: r.ref(step), Outcome: agent.ThreadCancelled, Reason: agent.ReasonCancelled, Code: "cancelled", Message: "cancelled",
	})
}

func (r *run) close(name, summary string, in contract.CloseInput) (*contract.CloseOutput, error) {
	r.details.waits = nil
	r.show()
	out, err := local[contract.CloseOutput](r.save, name, summary, in)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// hint nudges the runs that the close concerns: that of the delegator that got this
// turn's end (unless it waits for this very run), that of the delegator of the next
// entry, and those of descendants that were closed along.
func (r *run) hint(closed *contract.CloseOutput) error {
	var targets []contract.NudgeTarget
	if n := closed.Notify; n != nil {
		parent := workflow.GetInfo(r.save).ParentWorkflowExecution
		if parent == nil || n.RunID == "" || parent.RunID != n.RunID {
			targets = append(targets, contract.NudgeTarget{Thread: n.ThreadID})
		}
	}
	if closed.Waiting != "" {
		targets = append(targets, contract.NudgeTarget{Thread: closed.Waiting})
	}
	for _, s := range closed.Stopped {
		targets = append(targets, contract.NudgeTarget{Thread: s.ThreadID, CancelTurn: s.TurnID})
	}
	if len(targets) == 0 {
		return nil
	}
	ctx := workflow.WithActivityOptions(r.save, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumInterval: 10 * time.Second},
		Summary:             fmt.Sprintf("%d threads", len(targets)),
	})
	return workflow.ExecuteActivity(ctx, contract.Nudge, contract.NudgeInput{Targets: targets}).Get(ctx, nil)
}

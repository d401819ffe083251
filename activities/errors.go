package activities

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// wire is the one place that turns a cause into an error for Temporal: its type
// tells the workflow what happened and its kind whether another attempt may help.
func (a *Activities) wire(ctx context.Context, turnID string, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, memory.ErrCancelRequested) || agent.CodeOf(cause) == agent.CodeStale {
		err = cause // the activity had to stop: its outcome says nothing
	}
	var model *agent.ModelError
	var wired *temporal.ApplicationError
	var full *contextFull
	var other *otherModel
	var later *retryLater
	var blind *noImages
	switch {
	case errors.As(err, &wired):
		return err
	case errors.Is(err, memory.ErrCancelRequested):
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.ErrTypeCancelled, nil)
	case errors.As(err, &full):
		return temporal.NewApplicationErrorWithOptions(full.text, contract.ErrTypeContext, temporal.ApplicationErrorOptions{
			NonRetryable: true, Category: temporal.ApplicationErrorCategoryBenign, Details: []any{full.need},
		})
	case errors.As(err, &blind):
		return waiting(blind.Error(), time.Millisecond) // 0 would mean the policy's
	case errors.As(err, &other):
		return temporal.NewApplicationErrorWithOptions(other.Error(), contract.ErrTypeFallback, temporal.ApplicationErrorOptions{
			NonRetryable: true, Category: temporal.ApplicationErrorCategoryBenign, Details: []any{other.model},
		})
	case errors.As(err, &later):
		a.showWait(ctx, turnID, later)
		return temporal.NewApplicationErrorWithOptions(later.Error(), contract.ErrTypeModel, temporal.ApplicationErrorOptions{
			NextRetryDelay: max(time.Until(later.wait.Until), time.Millisecond), // 0 would mean the policy's
			Details:        []any{later.wait.Code},
		})
	case errors.As(err, &model):
		return wireModel(model)
	case handsOver(ctx) != nil:
		return temporal.NewApplicationError(handsOver(ctx).Error(), contract.ErrTypeStopping)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	switch code := agent.CodeOf(err); code {
	case agent.CodeStale:
		// A stale attempt of an open turn means that another attempt was made
		// current; if Temporal still waits for this one, it shall try again.
		if turn, terr := a.Store.Turn(context.WithoutCancel(ctx), turnID); terr == nil && turn.State == memory.TurnOpen {
			return temporal.NewApplicationError(err.Error(), contract.ErrTypeDisplaced)
		}
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.ErrTypeStale, nil)
	case agent.CodeLimit:
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.ErrTypeLimit, nil, string(code))
	case agent.CodeForeign:
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.ErrTypeForeign, nil, string(code))
	case agent.CodeNotFound, agent.CodeInvalid, agent.CodeConflict:
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.ErrTypeInvalid, nil, string(code))
	}
	// The store is away, locked or full, or something unforeseen happened:
	// later may be better, and a turn must not end for it.
	return temporal.NewApplicationError(err.Error(), contract.ErrTypeStore)
}

// minModelTries is how often at least a failing model call is made, so that it is not
// given up on after its worker was away for longer than RetryFor.
const minModelTries = 6

// mostDelay is the longest time between two tries that our back-off chooses.
const mostDelay = time.Minute

// retryLater is a failed model call that is made again. Its text is what Temporal's
// web UI shows of the activity meanwhile.
type retryLater struct {
	wait  *agent.ModelWait
	cause *agent.ModelError
}

func (e *retryLater) Error() string {
	return e.wait.Text(time.Now().UTC()) + " (UTC): " + e.cause.Error()
}

// later fixes when a call is made again that failed or was held back, before anybody
// reads of it; fallback is the model that takes over in the end. No wait is longer
// than what is left of the time for repeating it: the last try is made when that is
// over.
func later(e *agent.ModelError, t tried, fallback string) *retryLater {
	now, delay := time.Now(), retryDelay(max(t.failures, 1), e.RetryAfter)
	var end *time.Time
	if !e.NotCalled && (t.failures >= minModelTries || t.left > mostDelay) {
		end, delay = new(now.Add(t.left).UTC().Truncate(time.Millisecond)), min(delay, t.left)
	}
	wait := agent.NewModelWait(e, t.failures+1, now.Add(delay))
	wait.GivesUpAt, wait.Fallback = end, fallback
	return &retryLater{wait: wait, cause: e}
}

// wireModel is for a call that is not made again. Its text is what people read of the
// turn.
func wireModel(e *agent.ModelError) error {
	last := *e
	switch {
	case !e.Retryable || repeats(e):
	case e.NotCalled: // the text says until when it is held
	case e.RetryAfter >= time.Second:
		until := time.Now().Add(e.RetryAfter).UTC().Truncate(time.Second)
		last.Message = fmt.Sprintf("%s; the provider asks to wait until %s", agent.Shorten(e.Message, mostSaid, ""), until.Format(time.RFC3339))
	}
	return temporal.NewNonRetryableApplicationError(last.Final(), contract.ErrTypeModel, nil, e.Code)
}

// mostSaid bounds what is repeated of an error that more is said of, in bytes.
const mostSaid = 400

// retryDelay is exponential with jitter, or what the provider asked for plus a
// little jitter, so that calls which were refused together do not return together.
func retryDelay(attempt int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked + time.Duration(rand.Int64N(int64(asked/10+50*time.Millisecond)))
	}
	const first = 500 * time.Millisecond
	d := mostDelay
	if attempt < 8 {
		d = min(mostDelay, first<<(attempt-1))
	}
	return d/2 + time.Duration(rand.Int64N(int64(d/2)))
}

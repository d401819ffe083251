package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// A conversation keeps its images when its model changes, so a model that takes none
// would refuse every later turn. It is told of them in words instead. That it takes
// none is remembered with the thread, as corrections of its window are: the next
// steps do not ask again, on whatever worker they run.

// sees lets a request pass whose images its model may take. Of one that is known to
// take none, it is remembered first, so that a person is told once.
func (a *Activities) sees(ctx context.Context, ref contract.Ref, r agent.ModelRequest) error {
	if !a.modelInfo(r.Model).NoImages || !agent.HasImages(r.Messages) {
		return nil
	}
	return a.withoutImages(ctx, ref, r.Model, nil)
}

// withoutImages is the error that has a model remembered as one that takes no images:
// as a provider's refusal says, or, without one, the table of models.
func (a *Activities) withoutImages(ctx context.Context, ref contract.Ref, model string, refusal *agent.ModelError) error {
	cause, why := memory.CauseImages(model), "the table of models says so"
	made, err := a.summarised(ctx, ref, cause)
	switch {
	case err != nil:
		return err
	case made && refusal != nil:
		return refusal // no second time in a step
	case made:
		return nil
	case refusal != nil:
		why = agent.Shorten(refusal.Error(), 500, "")
	}
	full := &contextFull{
		need: contract.SummaryNeed{Cause: string(cause)}, text: model + " cannot see images: it is called without them",
		warnings: []agent.Warning{{Code: agent.WarnNoImages, Message: fmt.Sprintf(
			"%s cannot see images: it is told their names only. To have them seen, go on with a model that takes images. (%s)", model, why)}},
	}
	if refusal == nil {
		return full
	}
	return errors.Join(refusal, full)
}

// blindRecord remembers that a model takes no images. Nothing is summarised.
func blindRecord(ref contract.Ref, cause memory.Cause, model string, attempt int, c conversation) memory.SummaryRecord {
	r := memory.SummaryRecord{Attempt: attempt, Summary: memory.Summary{ThreadID: ref.Thread, TurnID: ref.Turn, Step: ref.Step, Cause: cause, Model: model}}
	if c.summary != nil {
		r.ReplacesFrom, r.ReplacesTo = c.summary.ReplacesFrom, c.summary.ReplacesTo
	}
	return r
}

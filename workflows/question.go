package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
)

// question carries one ask_user call to its result. The question and its answer
// are in the store; a nudge tells of the answer.
type question struct {
	run  *run
	step int
	call contract.Call

	wait // for the answer
}

// Run returns when the call has its result in the store.
func (q *question) Run(ctx workflow.Context) error {
	defer func() { q.over = true }()
	r := q.run
	answered := func() {}
	for name, summary := contract.OpenQuestion, q.call.Summary; ; name, summary = contract.QuestionState, "looks for the answer" {
		seen := r.nudges
		out, err := local[contract.QuestionOutput](ctx, name, summary, r.callRef(q.step, q.call))
		if err != nil || out.Done {
			answered()
			return err
		}
		if name == contract.OpenQuestion {
			answered = r.waitsFor(contract.WaitsForPerson, out.SinceMs, "answer to %s by a person", q.call.Summary)
		}
		if out.Cancelled {
			r.halt(agent.ThreadCancelled)
		}
		if r.stop != "" {
			return errCancelled
		}
		woken := func() bool { return r.nudges != seen || r.stop != "" }
		q.asleep = func() bool { return !woken() }
		if err := workflow.Await(ctx, woken); err != nil {
			return err
		}
		q.asleep = nil
	}
}

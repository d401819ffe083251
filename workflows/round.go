package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
)

// round brings every call of a step to its result and saves them together.
func (r *run) round(step int, calls []contract.Call) (*contract.CloseOutput, error) {
	for {
		var ready, gated []contract.Call
		for _, c := range calls {
			switch {
			case c.Final:
			case c.Gate == agent.GateAsk:
				gated = append(gated, c)
			default:
				ready = append(ready, c)
			}
		}
		if len(gated) == 0 && r.allQuick(calls, ready) {
			closed, left, err := r.runQuick(step, calls, ready)
			if err != nil || len(left) == 0 {
				return closed, err
			}
			ready = left
		}
		if len(ready) > 0 {
			if err := r.perform(step, ready); err != nil {
				return r.failed(step, err)
			}
		}
		if len(gated) == 0 {
			return r.saveRound(step, calls)
		}
		decided, err := r.ask(step, gated)
		if err != nil {
			return nil, err
		}
		calls = decided
	}
}

// versionQuick is the version from which on quick calls run in the workflow task that
// follows their reply.
const versionQuick = "quick-tools"

// allQuick reports whether all that a step has to do before its round is saved are
// quick calls. Beside others they would only delay these.
func (r *run) allQuick(calls, ready []contract.Call) bool {
	return len(ready) > 0 && !slices.ContainsFunc(ready, func(c contract.Call) bool { return !c.Quick }) &&
		!slices.ContainsFunc(calls, func(c contract.Call) bool { return c.Denied }) &&
		workflow.GetVersion(r.save, versionQuick, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// runQuick runs quick calls and saves the round with them, unless some took too long:
// these are left.
func (r *run) runQuick(step int, calls, quick []contract.Call) (*contract.CloseOutput, []contract.Call, error) {
	in := contract.RoundInput{Ref: r.ref(step)}
	var what []string
	for _, c := range quick {
		in.Run, what = append(in.Run, c.ID), append(what, c.Summary)
	}
	r.details.runs = strings.Join(what, ", ")
	r.showDetails()
	saved, err := local[contract.RoundOutput](r.save, contract.SaveToolRound, r.roundSummary(calls, "results")+": "+r.details.runs, in)
	r.details.runs = ""
	if err != nil {
		closed, err := r.failed(step, err)
		return closed, nil, err
	}
	left := slices.DeleteFunc(slices.Clone(quick), func(c contract.Call) bool { return !slices.Contains(saved.Left, c.ID) })
	return nil, left, nil
}

// roundSummary says what a round consists of.
func (r *run) roundSummary(calls []contract.Call, what string) string {
	return fmt.Sprintf("%d %s, seq %d–%d", len(calls), what, r.seq+1, r.seq+1+int64(len(calls)))
}

// saveRound is save point 2, or 4 if a call was denied.
func (r *run) saveRound(step int, calls []contract.Call) (*contract.CloseOutput, error) {
	name, what := contract.SaveToolRound, "results"
	for _, c := range calls {
		if c.Denied {
			name, what = contract.SaveDenial, "results, denied"
		}
	}
	saved, err := local[contract.RoundOutput](r.save, name, r.roundSummary(calls, what), contract.RoundInput{Ref: r.ref(step)})
	if err != nil {
		return nil, err
	}
	if saved.EndTurn {
		return r.close(contract.SaveFinalAnswer, "denied", contract.CloseInput{
			Ref: r.ref(step + 1), Outcome: agent.ThreadCompleted, Reason: agent.ReasonDenied,
			Answer: "I stopped here because you denied what I wanted to do. Tell me how to go on.",
		})
	}
	return nil, nil
}

// perform runs calls in parallel, each to its stored result.
func (r *run) perform(step int, calls []contract.Call) error {
	errs := make([]error, len(calls))
	left, tools := len(calls), 0
	var delegations []*DelegationService
	var questions []*question
	for i, c := range calls {
		done := func(err error) { errs[i] = err; left-- }
		if c.Delegate {
			d := &DelegationService{run: r, step: step, call: c}
			delegations = append(delegations, d)
			workflow.GoNamed(r.save, "delegation", func(ctx workflow.Context) { done(d.Run(ctx)) })
			continue
		}
		if c.Question {
			q := &question{run: r, step: step, call: c}
			questions = append(questions, q)
			workflow.GoNamed(r.save, "question", func(ctx workflow.Context) { done(q.Run(ctx)) })
			continue
		}
		tools++
		f := r.regular(contract.RunTool, c.Summary, time.Duration(c.TimeoutMs)*time.Millisecond+contract.ToolGrace, r.callRef(step, c))
		workflow.GoNamed(r.save, "tool", func(ctx workflow.Context) {
			err := f.Get(ctx, nil)
			tools--
			done(typed(err))
		})
	}
	finished := func() bool { return left == 0 }
	// Only delegations and questions may be left behind by a run: their ends come
	// through the store.
	if tools < len(calls) {
		_ = workflow.Await(r.save, func() bool { return finished() || tools == 0 || r.stop != "" })
		ok, _ := awaitFor(r.save, r.waitInRun(), "then the run parks", func() bool { return finished() || r.stop != "" })
		if !ok && tools == 0 {
			return r.parkFor(delegations, questions)
		}
	}
	r.settle(finished)
	if r.stop != "" {
		return errCancelled
	}
	return errors.Join(errs...)
}

func (r *run) callRef(step int, c contract.Call) contract.Ref {
	ref := r.ref(step)
	ref.Call = c.ID
	return ref
}

// ask asks a person about the gated calls of the step and waits, for days if
// need be. It returns the step's calls as decided.
func (r *run) ask(step int, gated []contract.Call) ([]contract.Call, error) {
	what := make([]string, len(gated))
	for i, c := range gated {
		what[i] = c.Summary
	}
	calls := strings.Join(what, ", ")
	asked, err := local[contract.StepOutput](r.save, contract.OpenApproval, calls, r.ref(step))
	if err != nil {
		return nil, err
	}
	done := r.waitsFor(contract.WaitsForPerson, asked.SinceMs, "approval of %s by a person", calls)
	decided, err := r.decision(step)
	if !workflow.IsContinueAsNewError(err) {
		done()
	}
	return decided, err
}

// decision waits until a person has decided.
func (r *run) decision(step int) ([]contract.Call, error) {
	for {
		seen := r.nudges
		state, err := local[contract.StepOutput](r.save, contract.StepState, "looks for the decision", r.ref(step))
		switch {
		case err != nil:
			return nil, err
		case state.Cancelled || r.stop != "":
			return nil, errCancelled
		case !state.Waiting:
			return state.Calls, nil
		}
		woken := func() bool { return r.nudges != seen || r.stop != "" }
		if ok, _ := awaitFor(r.save, r.waitInRun(), "then the run parks", woken); !ok && r.mayPark(seen) {
			return nil, r.again(r.park(contract.ForPeople))
		}
	}
}

package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/internal/contract"
)

// A run that has waited for some time, for a person or for sub-agents only,
// continues as new into a parked run. That one records nothing until a signal
// comes, however many days later, so its history is empty and whatever code runs
// then is not bound by what another build had done in it.

// parked waits for the first signal. All a signal means is that the store may
// say something new, so the run then begins as any other does.
func (r *run) parked(c *contract.Carry) {
	woken := func() bool { return r.woken }
	if c.DeadlineMs == 0 || c.Parked == contract.ForPeople {
		_ = workflow.Await(r.save, woken)
		return
	}
	// Sub-agents may take too long. If the deadline is over, somebody below
	// waited for people, and may still.
	left := time.UnixMilli(c.DeadlineMs).Sub(workflow.Now(r.save))
	if left <= 0 {
		left = contract.PeoplePause
	}
	_, _ = awaitFor(r.save, left, "the turn's time limit, while sub-agents work", woken)
}

// park is the state of a run that parks.
func (r *run) park(what contract.Parked) *contract.Carry {
	c := r.carry()
	c.Parked, c.Details = what, r.text()
	return c
}

func (r *run) waitInRun() time.Duration {
	return cmp.Or(time.Duration(r.claim.Timing.WaitMs)*time.Millisecond, contract.WaitInRun)
}

// undisturbed reports whether neither a nudge nor a cancel came since seen. What
// the server has delivered by now is looked at; what it has not makes it refuse the
// continue-as-new, and the task is done over.
func (r *run) undisturbed(seen int) bool {
	for {
		var s contract.CancelSignal
		if !r.cancelCh.ReceiveAsync(&s) {
			break
		}
		r.cancelSignalled(s)
	}
	return r.drained(seen) && r.stop == "" && r.ctx.Err() == nil
}

// mayPark is the last look before the run parks. A signal of this workflow task may be
// with the coroutine that waits for signals, which has not run yet if a timer of the same
// task woke this one: it runs first. A signal that a run parks over is lost, for the parked
// run looks at nothing before the next one.
func (r *run) mayPark(seen int) bool {
	others := false
	workflow.GoNamed(r.save, "others", func(workflow.Context) { others = true })
	_ = workflow.Await(r.save, func() bool { return others })
	return r.undisturbed(seen)
}

// wait is what a call waits for that is not run by this worker.
type wait struct {
	asleep func() bool // set while nothing is to be done until it comes
	over   bool
}

// sleeps reports whether the call needs no run for now.
func (w *wait) sleeps() bool { return w.over || w.asleep != nil && w.asleep() }

// parkFor ends the run to wait for delegated calls and answers. If one of them
// has something to do, the run continues as new all the same, but goes on at once.
func (r *run) parkFor(delegations []*DelegationService, questions []*question) error {
	seen := r.nudges
	below, people := false, false
	for _, d := range delegations {
		below = below || !d.over
	}
	for _, q := range questions {
		people = people || !q.over
	}
	asleep := func() bool {
		for _, d := range delegations {
			if !d.sleeps() {
				return false
			}
		}
		for _, q := range questions {
			if !q.sleeps() {
				return false
			}
		}
		return r.undisturbed(seen)
	}
	// Time does not count while a question is open, so no deadline can pass then.
	what := contract.ForSubAgents
	if people {
		what = contract.ForPeople
	}
	switch {
	case r.ctx.Err() != nil:
		return errCancelled
	case !asleep():
		return r.again(r.carry())
	case !below && !r.mayPark(seen):
		return r.again(r.carry())
	case !below:
		return r.again(r.park(what))
	}
	// From now on ends of sub-agents are signalled, not only seen by this run.
	claim, err := local[contract.ClaimOutput](r.save, contract.SaveUserMessage, "waits for sub-agents",
		contract.ClaimInput{StoreID: r.in.StoreID, Thread: r.in.ThreadID, Park: true})
	switch {
	case err != nil:
		return err
	case r.ctx.Err() != nil:
		return errCancelled
	case claim.Turn != r.claim.Turn:
		return r.again(nil)
	case !asleep() || !r.mayPark(seen):
		return r.again(r.carry())
	}
	if !people {
		r.waitsFor(contract.WaitsForChildren, 0, "sub-agents")
	}
	return r.again(r.park(what))
}

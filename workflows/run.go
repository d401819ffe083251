package workflows

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
)

// run is one workflow run: it takes a turn from the thread's inbox and drives it
// to its end.
type run struct {
	in   contract.TurnInput
	typ  string
	ctx  workflow.Context // cancelled by Temporal's CancelWorkflow
	save workflow.Context // never cancelled: for saves and clean-up

	// The turn under way.
	claim    contract.ClaimOutput
	turnCtx  workflow.Context // cancelled when the turn is to stop
	stopTurn workflow.CancelFunc
	stop     agent.ThreadStatus // why: "", cancelled, or failed (timed out)
	deadline time.Time          // zero = none; without what is waited for people

	nudges   int  // nudges seen so far
	woken    bool // a signal or a cancellation has come
	calling  bool // a model call is under way
	nudgeCh  workflow.ReceiveChannel
	cancelCh workflow.ReceiveChannel
	seq      int64 // the thread's last message
	waitCh   workflow.ReceiveChannel
	details  details
	shown    string // the search attribute WaitsFor as it is set
}

func start(ctx workflow.Context, in contract.TurnInput, typ string) (contract.TurnResult, error) {
	if in.Carry != nil && in.Carry.Version > contract.StateVersion {
		// A panic fails the workflow task only: Temporal repeats it until a worker of
		// that build takes it.
		panic(fmt.Sprintf("%s (version %d, this build knows %d): start a worker of that build", contract.NewerBuild, in.Carry.Version, contract.StateVersion))
	}
	save, _ := workflow.NewDisconnectedContext(ctx)
	r := &run{in: in, typ: typ, ctx: ctx, save: save}
	r.listen()
	if c := in.Carry; c != nil {
		r.shown = c.Waits
		if c.Parked != "" {
			workflow.SetCurrentDetails(save, c.Details)
			r.parked(c)
		}
	}
	result, err := r.main()
	if err == nil && ctx.Err() != nil {
		err = temporal.NewCanceledError()
	}
	return result, err
}

// listen receives the signals. They are hints, so none has to be kept.
func (r *run) listen() {
	r.nudgeCh = workflow.GetSignalChannel(r.ctx, contract.SignalNudge)
	r.cancelCh = workflow.GetSignalChannel(r.ctx, contract.SignalCancel)
	r.waitCh = workflow.GetSignalChannel(r.ctx, contract.SignalWait)
	workflow.GoNamed(r.save, "signals", func(ctx workflow.Context) {
		for {
			workflow.NewSelector(ctx).
				AddReceive(r.nudgeCh, func(c workflow.ReceiveChannel, _ bool) {
					c.Receive(ctx, nil)
					r.nudges++
					r.woken = true
				}).
				AddReceive(r.cancelCh, func(c workflow.ReceiveChannel, _ bool) {
					var s contract.CancelSignal
					c.Receive(ctx, &s)
					r.cancelSignalled(s)
				}).
				AddReceive(r.waitCh, func(c workflow.ReceiveChannel, _ bool) {
					var s contract.WaitSignal
					c.Receive(ctx, &s)
					if r.calling && s.Turn == r.claim.Turn {
						r.providerWaits(s.For)
					}
				}).
				Select(ctx)
		}
	})
	workflow.GoNamed(r.save, "cancellation", func(ctx workflow.Context) {
		r.ctx.Done().Receive(ctx, nil)
		r.woken = true
		r.halt(agent.ThreadCancelled)
	})
}

// cancelSignalled reacts to a cancel signal, which may be one for another turn.
func (r *run) cancelSignalled(s contract.CancelSignal) {
	r.woken = true
	if s.Turn == r.claim.Turn && s.Turn != "" {
		r.halt(agent.ThreadCancelled)
	}
}

// halt makes the turn stop; the first reason wins.
func (r *run) halt(why agent.ThreadStatus) {
	if r.stop == "" {
		r.stop = why
	}
	if r.stopTurn != nil {
		r.stopTurn()
	}
}

// main takes turns until the inbox is empty. A second turn of a main thread gets
// a run of its own, so that its history starts small.
func (r *run) main() (contract.TurnResult, error) {
	var last contract.TurnResult
	for {
		r.drained(0) // the claim sees what was signalled until now
		seen := r.nudges
		if err := r.take(); err != nil {
			return last, err
		}
		switch {
		case r.claim.Turn == "":
			if r.drained(seen) {
				return last, nil
			}
			continue
		case last.Turn != "":
			return last, r.again(nil)
		}
		closed, err := r.turn()
		if err != nil {
			return last, err
		}
		if closed == nil { // closed by somebody else: begin afresh
			r.halt(agent.ThreadCancelled)
			return last, r.again(nil)
		}
		last = contract.TurnResult{Turn: r.claim.Turn, Outcome: closed.Outcome}
		if err := r.hint(closed); err != nil {
			return last, err
		}
		if r.typ == contract.SubAgentTurn {
			return last, nil
		}
		if closed.Next != "" {
			return last, r.again(nil)
		}
		if r.drained(seen) {
			return last, nil
		}
	}
}

// drained reports whether no nudge came since seen.
func (r *run) drained(seen int) bool {
	for r.nudgeCh.ReceiveAsync(nil) {
		r.nudges++
	}
	return r.nudges == seen
}

func (r *run) again(carry *contract.Carry) error {
	if carry == nil {
		r.showWaits("")
	}
	ctx := workflow.WithWorkflowTaskTimeout(r.save, contract.WorkflowTaskTimeout)
	return workflow.NewContinueAsNewError(ctx, r.typ, contract.TurnInput{StoreID: r.in.StoreID, ThreadID: r.in.ThreadID, Carry: carry})
}

// take claims the next turn, or the one that is open already, and saves its
// user message.
func (r *run) take() error {
	r.claim, r.stop, r.stopTurn, r.details = contract.ClaimOutput{}, "", nil, details{}
	claim, err := local[contract.ClaimOutput](r.save, contract.SaveUserMessage, "takes the next message", contract.ClaimInput{StoreID: r.in.StoreID, Thread: r.in.ThreadID})
	if err != nil {
		return err
	}
	r.claim, r.seq = claim, claim.Seq
	if claim.Turn == "" {
		return nil
	}
	r.turnCtx, r.stopTurn = workflow.WithCancel(r.save)
	if r.ctx.Err() != nil {
		r.halt(agent.ThreadCancelled)
	}
	r.details.begin(claim)
	r.setDeadline()
	r.describe()
	return nil
}

// setDeadline bounds the turn's time. When it is over, the store says how much of
// it somebody, here or below, waited for people: that does not count.
func (r *run) setDeadline() {
	r.deadline = time.Time{}
	switch c := r.in.Carry; {
	case c != nil && c.TurnID == r.claim.Turn && c.DeadlineMs != 0:
		r.deadline = time.UnixMilli(c.DeadlineMs)
	case r.claim.TimeoutMs > 0:
		r.deadline = workflow.Now(r.save).Add(time.Duration(r.claim.TimeoutMs) * time.Millisecond)
	default:
		return
	}
	workflow.GoNamed(r.turnCtx, "deadline", func(ctx workflow.Context) {
		left, pause := r.deadline.Sub(workflow.Now(ctx)), time.Duration(0)
		for {
			if workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{Summary: "the turn's time limit"}).Get(ctx, nil) != nil {
				return
			}
			waited, err := local[contract.WaitedOutput](ctx, contract.TurnWaited, "how long it waited for people", r.ref(0))
			if err != nil {
				return
			}
			left = r.deadline.Add(time.Duration(waited.Ms) * time.Millisecond).Sub(workflow.Now(ctx))
			if left <= 0 {
				r.halt(agent.ThreadFailed)
				return
			}
			if !waited.Now {
				continue
			}
			// A person may take days: ask ever less often, and when somebody answered.
			pause = min(max(2*pause, time.Second), contract.PeoplePause)
			seen := r.nudges
			if _, err := awaitFor(ctx, max(left, pause), "time is over, a person is waited for", func() bool { return r.nudges != seen }); err != nil {
				return
			}
			left = 0
		}
	})
}

// carry is the state for the next run of the same turn.
func (r *run) carry() *contract.Carry {
	c := &contract.Carry{Version: contract.StateVersion, TurnID: r.claim.Turn, Waits: r.shown}
	if !r.deadline.IsZero() {
		c.DeadlineMs = r.deadline.UnixMilli()
	}
	return c
}

// full reports whether the run should continue as new before its next step.
func (r *run) full() bool {
	info := workflow.GetInfo(r.save)
	limit := cmp.Or(r.claim.Timing.MaxEvents, contract.MaxEvents)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > limit || info.GetCurrentHistorySize() > contract.MaxBytes
}

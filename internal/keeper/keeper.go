// Package keeper is what workers do in the background: the sweep nudges threads
// whose inbox, child results or cancels nobody reacted to, and reconcile closes
// turns whose run is gone for good.
//
// All of it is idempotent, so any number of workers may do it at once.
package keeper

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/memory"
)

// DefaultAge is how far apart two sightings of an open turn without an open run
// must be, how long a cancel may stay unsettled before a run whose workflow task
// keeps failing is terminated, and how long an idle thread may be overdue before
// its open run is suspected of waiting on a task queue that nobody polls.
const DefaultAge = 10 * time.Second

// Intervals of the keeper.
const (
	sweepEvery = time.Second
	batch      = 200
	maxBackOff = time.Minute
	// What is done to a turn is done to its end, also by a worker that drains.
	settleWithin = 10 * time.Second
	// A person waits for a cancel, and its age must not be missed by much.
	cancelBackOff = 2 * time.Second
	// The open turns are looked at twice in Age, as far as lookAtMost turns per
	// sweep allow: thousands may wait for people.
	lookAtMost = 20
)

// Keeper sweeps and reconciles. Its fields are set before Run.
type Keeper struct {
	Store  memory.ConversationMemoryStore
	Client client.Client
	Nudger nudge.Nudger
	// Namespace is the client's.
	Namespace string
	Log       *slog.Logger
	// Age is how long something may look wrong; 0 = DefaultAge. Nudges come after a
	// fifth of it.
	Age time.Duration
	// Closed, if set, is called for each turn that the keeper closes.
	Closed func(memory.CloseRequest, memory.Closed)

	sweeps  map[string]backOff // by thread
	changes int64              // what the store's Changed said last
	changed time.Time          // when that was new
	// One round looks at all open turns, a page per sweep.
	begun   time.Time             // the round's begin
	last    memory.OpenTurn       // the last one looked at; zero = the round is over
	missed  map[sighted]time.Time // of the round before
	missing map[sighted]time.Time // the same, of this round
	strays  []byte                // the page of open runs to look at next
	strayed time.Time             // when the one before was looked at

	interceptor.WorkerInterceptorBase
	taken sync.Map // when this worker took over the run of a thread: string → time.Time
}

// sighted is an open turn without a run, since it was first seen so; or one that has a run
// and needs a nudge, since it got the last one.
type sighted struct {
	memory.ThreadTurn
	runs bool
}

type backOff struct {
	next  time.Time
	delay time.Duration
}

func (k *Keeper) age() time.Duration { return cmp.Or(k.Age, DefaultAge) }

func (k *Keeper) sweepAge() time.Duration { return k.age() / 5 }

// intact is what a store has that can be taken away under a running process.
type intact interface{ Intact() error }

// Run works until ctx ends, or until the store is found to be lost.
func (k *Keeper) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	beside.Go(func() { k.followTaken(ctx) })
	k.sweeps, k.missing = map[string]backOff{}, map[sighted]time.Time{}
	for {
		// Jitter keeps the keepers of several workers apart.
		wait := sweepEvery/2 + time.Duration(rand.Int64N(int64(sweepEvery)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if s, ok := k.Store.(intact); ok {
			if err := s.Intact(); err != nil {
				return err
			}
		}
		if !k.quiet(ctx) {
			if err := k.Sweep(ctx); err != nil && ctx.Err() == nil {
				k.Log.Warn("sweep failed; it is repeated", "error", err)
			}
		}
		if err := k.Reconcile(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("reconcile failed; it is repeated", "error", err)
		}
		if time.Since(k.strayed) > 3*k.age() {
			k.strayed = time.Now()
			if _, err := k.endStrays(ctx); err != nil && ctx.Err() == nil {
				k.Log.Warn("open runs cannot be listed; it is repeated", "error", err)
			}
		}
	}
}

// quiet reports whether nothing can have become overdue since the last sweep: that found
// nothing, and it came late enough after the last commit of anybody.
func (k *Keeper) quiet(ctx context.Context) bool {
	n, err := k.Store.Changed(ctx)
	if err != nil || n != k.changes || k.changed.IsZero() {
		k.changes, k.changed = n, time.Now()
		return false
	}
	return len(k.sweeps) == 0 && time.Since(k.changed) > k.sweepAge()+4*sweepEvery
}

// Sweep nudges overdue threads, each with its own back-off.
func (k *Keeper) Sweep(ctx context.Context) error {
	overdue, err := k.Store.Overdue(ctx, k.sweepAge(), batch)
	if err != nil {
		return err
	}
	now := time.Now()
	still := make(map[string]backOff, len(overdue))
	var errs []error
	for _, o := range overdue {
		b := k.sweeps[o.ThreadID]
		if now.Before(b.next) {
			still[o.ThreadID] = b
			continue
		}
		most := maxBackOff
		if o.CancelTurn != "" {
			most = cancelBackOff
		}
		b.delay = min(max(2*b.delay, time.Second), most)
		b.next = now.Add(b.delay)
		still[o.ThreadID] = b
		k.Log.Info("nudging a thread", "thread", o.ThreadID, "cancel", o.CancelTurn)
		errs = append(errs, k.nudge(ctx, o))
	}
	k.sweeps = still
	return errors.Join(errs...)
}

func (k *Keeper) nudge(ctx context.Context, o memory.Overdue) error {
	switch {
	case o.CancelTurn != "":
		if o.Age > k.age() {
			run, err := lastRun(ctx, k.Client, o.ThreadID)
			if found, err2 := nudge.FindTrouble(ctx, k.Client, k.Namespace, run); cmp.Or(err, err2) == nil && found.Sure {
				return k.terminate(ctx, o, run, found.Cause)
			}
		}
		return k.Nudger.Nudge(ctx, contract.NudgeTarget{Thread: o.ThreadID, CancelTurn: o.CancelTurn})
	case o.Idle && o.Age > k.age():
		if err := k.free(ctx, o.ThreadID); err != nil {
			return err
		}
	}
	switch {
	case o.Kind == agent.KindSubAgent && o.Idle && o.Delegator == "":
		return k.startSubAgent(ctx, o.ThreadID)
	case o.Kind == agent.KindSubAgent && o.Idle:
		return k.Nudger.Nudge(ctx, contract.NudgeTarget{Thread: o.Delegator})
	}
	return k.Nudger.Nudge(ctx, contract.NudgeTarget{Thread: o.ThreadID})
}

// startSubAgent starts the run of a sub-agent whose delegator cannot.
func (k *Keeper) startSubAgent(ctx context.Context, thread string) error {
	t, err := k.Store.Thread(ctx, "", thread)
	if err != nil {
		return err
	}
	return k.Nudger.StartSubAgent(ctx, t)
}

// free terminates the run of an idle thread that does not end by itself: it waits on
// another task queue, where a sender with other settings started it, or only another
// build can go on with it. An idle thread's run holds nothing that is not in the store.
func (k *Keeper) free(ctx context.Context, thread string) error {
	run, err := lastRun(ctx, k.Client, thread)
	why := replaced
	switch queue := run.GetWorkflowExecutionInfo().GetTaskQueue(); {
	case err != nil || !isOpen(run):
		return err
	case queue != k.Nudger.Queue():
		why = "it waited on task queue " + queue + ", which does not serve its store"
	case !k.otherBuilds(ctx, run):
		return nil
	}
	k.Log.Warn("terminating the run of an idle thread", "thread", thread, "because", why)
	return k.endRun(ctx, run.GetWorkflowExecutionInfo(), why)
}

// endRun terminates this run alone: another worker may have done so before, and the next
// one may be at work.
func (k *Keeper) endRun(ctx context.Context, run *workflowpb.WorkflowExecutionInfo, why string) error {
	err := k.Client.TerminateWorkflow(ctx, run.GetExecution().GetWorkflowId(), run.GetExecution().GetRunId(), why)
	if gone(err) {
		return nil
	}
	return err
}

// terminate ends a run that cannot end itself and closes its cancelled turn.
func (k *Keeper) terminate(ctx context.Context, o memory.Overdue, run *workflowservice.DescribeWorkflowExecutionResponse, cause string) error {
	k.Log.Warn("terminating a run that does not obey its cancel", "thread", o.ThreadID, "turn", o.CancelTurn, "cause", cause)
	if err := k.endRun(ctx, run.GetWorkflowExecutionInfo(), "cancelled, but "+cause); err != nil {
		return err
	}
	return k.close(ctx, memory.CloseRequest{
		// Reason terminated: no run is there to take a next turn claimed here.
		ThreadID: o.ThreadID, TurnID: o.CancelTurn, Outcome: agent.ThreadCancelled, Reason: agent.ReasonTerminated,
		Code: "cancelled", Message: "cancelled; the run was terminated because " + cause,
	})
}

// Reconcile looks after open turns whose workflow id has had no open run for
// Age. If the last run ended by itself, a claim of it took effect late:
// a new run goes on with the turn. Otherwise the run is gone for good and the
// turn is closed as failed(terminated). Only a Temporal that answers counts: an
// outage closes nothing.
//
// So it does for a run that another build has begun and that no worker can go on with
// for as long, unless followTaken has: a new run takes its place. A run that has not
// reacted to what people settled, and that the sweep no longer sees, is nudged.
func (k *Keeper) Reconcile(ctx context.Context) error {
	page, err := k.page(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range page {
		run, err := lastRun(ctx, k.Client, t.ThreadID)
		runs := isOpen(run) && !k.otherBuilds(ctx, run)
		key, now := sighted{memory.ThreadTurn{ThreadID: t.ThreadID, TurnID: t.TurnID}, runs}, time.Now()
		first, before := k.missed[key]
		switch {
		case err != nil:
			errs = append(errs, err)
		case runs && !t.Settled:
			continue
		case runs && now.Sub(first) >= maxBackOff:
			errs = append(errs, k.Nudger.Nudge(ctx, contract.NudgeTarget{Thread: t.ThreadID}))
			first, before = now, true
		case runs:
		case !before:
			first, before = now, true
		case now.Sub(first) >= k.age():
			_, err := k.settle(ctx, t, run)
			errs = append(errs, err)
			continue
		}
		if before {
			k.missing[key] = first
		}
	}
	return errors.Join(errs...)
}

// page lists the open turns to look at now: the next ones of the round, or the first
// of a new one.
func (k *Keeper) page(ctx context.Context) ([]memory.OpenTurn, error) {
	if k.last.TurnID == "" {
		if time.Since(k.begun) < k.age()/2 {
			return nil, nil
		}
		k.begun, k.missed, k.missing = time.Now(), k.missing, map[sighted]time.Time{}
	}
	open, err := k.Store.OpenTurns(ctx, memory.OpenTurnFilter{Age: k.sweepAge(), After: k.last, Limit: lookAtMost})
	if err != nil {
		return nil, err
	}
	k.last = memory.OpenTurn{}
	if len(open) == lookAtMost {
		k.last = open[len(open)-1]
	}
	return open, nil
}

// settle goes on with an open turn whose last run cannot, or closes it, and says which.
// It does both parts of it although ctx ends in between, as when the worker drains.
func (k *Keeper) settle(ctx context.Context, t memory.OpenTurn, last *workflowservice.DescribeWorkflowExecutionResponse) (goesOn bool, err error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer done()
	status, why := last.GetWorkflowExecutionInfo().GetStatus(), ""
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		goesOn = true
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		k.Log.Warn("replacing a run that only another build can go on with", "thread", t.ThreadID, "turn", t.TurnID)
		goesOn, err = true, k.endRun(ctx, last.GetWorkflowExecutionInfo(), replaced)
	default:
		why, err = k.end(ctx, t.ThreadID)
		goesOn = why == replaced // by a worker that could not start the next run
	}
	switch {
	case err != nil:
		return false, err
	case goesOn:
		return true, k.goOn(ctx, t)
	}
	k.Log.Warn("closing a turn whose run is gone", "thread", t.ThreadID, "turn", t.TurnID, "run", status.String(), "cause", why)
	return false, k.close(ctx, memory.CloseRequest{
		ThreadID: t.ThreadID, TurnID: t.TurnID, Outcome: agent.ThreadFailed, Reason: agent.ReasonTerminated, Code: "terminated",
		Message: "the turn's workflow run is gone: it was terminated, failed, or Temporal lost it; retry to go on from what was saved",
	})
}

// replaced is why a run was terminated that another build had begun.
const replaced = "only another build could go on with it: a new run goes on from the store"

func (k *Keeper) goOn(ctx context.Context, t memory.OpenTurn) error {
	k.Log.Warn("starting a run for a turn that has none", "thread", t.ThreadID, "turn", t.TurnID)
	if t.Kind == agent.KindSubAgent {
		return k.startSubAgent(ctx, t.ThreadID)
	}
	return k.Nudger.Nudge(ctx, contract.NudgeTarget{Thread: t.ThreadID})
}

// end is why the last run of a thread ended, "" if Temporal does not say.
func (k *Keeper) end(ctx context.Context, thread string) (string, error) {
	h := k.Client.GetWorkflowHistory(ctx, thread, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	if !h.HasNext() {
		return "", nil
	}
	e, err := h.Next()
	switch {
	case gone(err):
		return "", nil
	case err != nil:
		return "", err
	case e.GetWorkflowExecutionFailedEventAttributes() != nil:
		return e.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetMessage(), nil
	}
	return e.GetWorkflowExecutionTerminatedEventAttributes().GetReason(), nil
}

// close closes a turn and hints to everybody concerned.
func (k *Keeper) close(ctx context.Context, req memory.CloseRequest) error {
	closed, err := k.Store.CloseTurn(ctx, req)
	if err != nil {
		return err
	}
	if k.Closed != nil {
		k.Closed(req, closed)
	}
	var errs []error
	hint := func(thread, cancel string) {
		errs = append(errs, k.Nudger.Nudge(ctx, contract.NudgeTarget{Thread: thread, CancelTurn: cancel}))
	}
	if closed.Next != "" {
		hint(req.ThreadID, "")
	}
	if closed.Notify != nil {
		hint(closed.Notify.ThreadID, "")
	}
	if closed.Waiting != "" {
		hint(closed.Waiting, "")
	}
	for _, s := range closed.Stopped {
		hint(s.ThreadID, s.TurnID)
	}
	return errors.Join(errs...)
}

// otherBuilds reports whether an open run needs another build. What it
// still has at work ends first: its results are of use to the next run. A run of which
// nothing says why it fails is nudged, so that the next look finds it said.
func (k *Keeper) otherBuilds(ctx context.Context, run *workflowservice.DescribeWorkflowExecutionResponse) bool {
	if len(run.GetPendingActivities()) > 0 {
		return false
	}
	found, err := nudge.FindTrouble(ctx, k.Client, k.Namespace, run)
	if err == nil && found.Unsaid {
		err = k.Nudger.Nudge(ctx, contract.NudgeTarget{Thread: run.GetWorkflowExecutionInfo().GetExecution().GetWorkflowId()})
	}
	return err == nil && found.OtherBuild
}

func isOpen(run *workflowservice.DescribeWorkflowExecutionResponse) bool {
	return run.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// lastRun describes a workflow id's latest run; nil if Temporal knows none.
func lastRun(ctx context.Context, c client.Client, workflowID string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	d, err := c.DescribeWorkflow(ctx, workflowID, "")
	switch {
	case gone(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return d.RawResponse, nil
}

func gone(err error) bool {
	var nf *serviceerror.NotFound
	return errors.As(err, &nf)
}

package workflows

import (
	"cmp"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/internal/contract"
)

// DelegationService carries one assign_task call from its refusal or opening to
// its result. The sub-thread, its task, the link event and the child's inbox
// entry are written in one transaction before the child starts, and the child's
// end is taken from this thread's inbox: the child's future and signals only
// tell of it early.
type DelegationService struct {
	run  *run
	step int
	call contract.Call

	wait // for the child's end
}

// Run returns when the call has its result in the store.
func (d *DelegationService) Run(ctx workflow.Context) error {
	r := d.run
	runner := &AgentCommandRunner{run: r, call: d.call}
	defer func() {
		d.over = true
		r.details.ended(runner.child)
		r.showDetails()
	}()
	ref := r.callRef(d.step, d.call)
	needsStart := false
	if !d.call.Running {
		opened, err := local[contract.DelegationOutput](ctx, contract.OpenDelegation, d.call.Summary, ref)
		if err != nil {
			return err
		}
		if opened.Refused {
			return nil
		}
		r.details.children = append(r.details.children, contract.Child{Agent: opened.Agent, Thread: opened.Child, Task: opened.Task, Background: opened.Background})
		r.showDetails()
		child := &AgentCommandRunner{run: r, child: opened.Child, call: d.call, about: opened.Agent + ": " + opened.Task}
		if opened.Background {
			return child.Start(ctx)
		}
		runner, needsStart = child, true
	}
	for first := true; ; first = false {
		seen := r.nudges
		if !first || !needsStart {
			taken, err := local[contract.ChildOutput](ctx, contract.TakeChildResult, "looks for the sub-agent's end", ref)
			if err != nil || taken.Done {
				return err
			}
			runner.child, needsStart = taken.Child, taken.NeedsStart
		}
		if r.stop != "" {
			return errCancelled
		}
		if needsStart {
			if err := runner.Start(ctx); err != nil {
				return err
			}
		}
		ended := runner.Ended
		woken := func() bool { return ended() || r.nudges != seen || r.stop != "" }
		d.asleep = func() bool { return !woken() }
		if err := workflow.Await(ctx, woken); err != nil {
			return err
		}
		d.asleep = nil
		if runner.Ended() {
			runner.future = nil
		}
	}
}

// AgentCommandRunner starts a sub-agent's run as a child workflow whose id is
// the sub-thread's id.
type AgentCommandRunner struct {
	run    *run
	child  string
	call   contract.Call
	about  string // the child's agent and task; "" = what the call says
	future workflow.ChildWorkflowFuture
}

// Start starts the child and returns when it has started: an abandoned child of
// a parent that ends earlier would never run. A run that is open already, for
// another delegator, is as good.
func (a *AgentCommandRunner) Start(ctx workflow.Context) error {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            a.child,
		WorkflowTaskTimeout:   contract.WorkflowTaskTimeout,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:         cmp.Or(a.about, a.call.Summary) + ", sub-agent of " + a.run.in.ThreadID,
		Memo:                  map[string]any{"parentThread": a.run.in.ThreadID, "parentToolCallId": a.call.ID, "task": cmp.Or(a.about, a.call.Summary)},
	})
	f := workflow.ExecuteChildWorkflow(ctx, contract.SubAgentTurn, contract.TurnInput{StoreID: a.run.in.StoreID, ThreadID: a.child})
	err := f.GetChildWorkflowExecution().Get(ctx, nil)
	var running *temporal.ChildWorkflowExecutionAlreadyStartedError
	switch {
	case err == nil:
		a.future = f
		return nil
	case errors.As(err, &running):
		return nil
	}
	return fmt.Errorf("start sub-agent %s: %w", a.child, err)
}

// Ended reports whether the child this runner started has ended.
func (a *AgentCommandRunner) Ended() bool { return a.future != nil && a.future.IsReady() }

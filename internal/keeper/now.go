package keeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// Now reconciles at once: every open turn without an open run, seen twice with
// wait in between, is gone on with or closed. It returns what was done.
//
// It also ends the open runs of threads that the store does not have: those that
// were made after the backup from which it was restored.
func (k *Keeper) Now(ctx context.Context, wait time.Duration) (done []string, err error) {
	for more := true; more; {
		strays, err := k.endStrays(ctx)
		if done = append(done, strays...); err != nil {
			return done, err
		}
		more = len(k.strays) > 0
	}
	turns, err := k.settleNow(ctx, wait)
	return append(done, turns...), err
}

// endStrays terminates open runs of threads that do not exist, and those of threads at
// rest that only another build can end. It looks at a page of them. A thread is
// written before its first run starts, so none of them is to come.
func (k *Keeper) endStrays(ctx context.Context) (done []string, err error) {
	if k.Nudger.Queue() != agent.TaskQueue(k.Store.ID()) {
		return nil, nil // other stores' runs may wait on a queue that somebody named
	}
	list, err := k.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query:         fmt.Sprintf(`TaskQueue = "%s" AND ExecutionStatus = "Running"`, k.Nudger.Queue()),
		NextPageToken: k.strays, PageSize: batch,
	})
	k.strays = list.GetNextPageToken()
	if err != nil {
		return nil, err
	}
	for _, info := range list.GetExecutions() {
		id := info.GetExecution().GetWorkflowId()
		if typ := info.GetType().GetName(); typ != contract.ConversationTurn && typ != contract.SubAgentTurn {
			continue
		}
		t, err := k.Store.Thread(ctx, "", id)
		switch {
		case agent.CodeOf(err) == agent.CodeNotFound:
			err = k.endRun(ctx, info, "its store does not have the thread")
			done = append(done, id+": its open run is terminated: the store does not have the thread")
		case err == nil && t.OpenTurnID == "":
			err = k.free(ctx, id)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (k *Keeper) settleNow(ctx context.Context, wait time.Duration) (done []string, err error) {
	before, err := k.withoutRun(ctx)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(wait):
	}
	now, err := k.withoutRun(ctx)
	errs := []error{err}
	for turn, run := range now {
		if _, twice := before[turn]; !twice {
			continue
		}
		what := "given a new run, which goes on from what the store holds"
		switch goesOn, err := k.settle(ctx, turn, run); {
		case err != nil:
			errs = append(errs, err)
			continue
		case goesOn:
		case run == nil:
			what = "closed as failed(terminated): Temporal knows no run of it"
		default:
			what = "closed as failed(terminated): its run ended as " + strings.ToLower(run.GetWorkflowExecutionInfo().GetStatus().String())
		}
		done = append(done, fmt.Sprintf("%s: turn %s is %s", turn.ThreadID, turn.TurnID, what))
	}
	return done, errors.Join(errs...)
}

// withoutRun finds open turns whose workflow id has no open run.
func (k *Keeper) withoutRun(ctx context.Context) (map[memory.OpenTurn]*workflowservice.DescribeWorkflowExecutionResponse, error) {
	open, err := k.Store.OpenTurns(ctx, memory.OpenTurnFilter{})
	if err != nil {
		return nil, err
	}
	out := map[memory.OpenTurn]*workflowservice.DescribeWorkflowExecutionResponse{}
	for _, t := range open {
		run, err := lastRun(ctx, k.Client, t.ThreadID)
		if err != nil {
			return nil, err
		}
		if !isOpen(run) {
			out[t] = run
		}
	}
	return out, nil
}

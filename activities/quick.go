package activities

import (
	"context"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// quickFor is how long quick calls may run within a workflow task.
const quickFor = time.Second

// runQuick brings quick calls of a step to their results, which are stored together,
// and with the step's last the round. What takes too long, or must wait, is given back:
// these calls are returned, and an activity of their own runs them.
func (a *Activities) runQuick(ctx context.Context, ref contract.Ref, calls []string) (round *memory.RoundSaved, left []string, err error) {
	// Repeatable calls need no fence: an attempt is current until the next one begins.
	starts, err := a.Store.BeginTools(ctx, memory.ToolBegin{ThreadID: ref.Thread, TurnID: ref.Turn, Repeatable: true, Worker: a.worker}, calls)
	if err != nil {
		return nil, nil, err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer time.AfterFunc(quickFor, end).Stop()
	outcomes, errs := make([]memory.ToolOutcome, len(starts)), make([]error, len(starts))
	var running sync.WaitGroup
	for i, begun := range starts {
		if begun.Lost > 0 {
			a.Telemetry.LostTool(ctx, a.toolCall(begun, begun.Lost), begun.LostSince)
		}
		if begun.Final || begun.Wait > 0 {
			continue
		}
		at := ref
		at.Call = begun.Call.ID
		running.Go(func() { outcomes[i], errs[i] = a.outcome(ctx, at, begun) })
	}
	running.Wait()
	var ended []memory.ToolOutcome
	for i, begun := range starts {
		switch {
		case begun.Final:
			continue
		case begun.Wait > 0:
			left = append(left, calls[i])
			continue
		case errs[i] != nil && ctx.Err() == nil:
			return nil, nil, errs[i] // begun again, all of them
		case errs[i] != nil:
			left = append(left, calls[i])
			outcomes[i] = memory.ToolOutcome{
				ThreadID: ref.Thread, TurnID: ref.Turn, CallID: calls[i], Attempt: begun.Attempt, Result: agent.ToolResult{Status: agent.CallPending},
			}
		}
		ended = append(ended, outcomes[i])
	}
	if len(ended) > 0 {
		round, err = a.Store.SaveResults(context.WithoutCancel(ctx), ended)
	}
	return round, left, err
}

// SaveToolRound appends the assistant message and all its results (save points 2 and
// 4). The step's quick calls it runs before.
func (a *Activities) SaveToolRound(ctx context.Context, in contract.RoundInput) (out contract.RoundOutput, err error) {
	var saved *memory.RoundSaved
	if len(in.Run) > 0 {
		if saved, out.Left, err = a.runQuick(ctx, in.Ref, in.Run); err != nil || len(out.Left) > 0 {
			return out, err
		}
	}
	if saved == nil {
		round, err := a.Store.SaveToolRound(ctx, round(in.Ref))
		return contract.RoundOutput{EndTurn: round.EndTurn}, err
	}
	return contract.RoundOutput{EndTurn: saved.EndTurn}, nil
}

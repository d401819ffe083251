// Package nudge sends the hints by which threads learn that the store holds
// something for them. What counts is in the store: a lost hint costs time, a
// doubled one nothing.
package nudge

import (
	"cmp"
	"context"
	"errors"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
)

// Nudger signals thread workflows. Safe for concurrent use.
type Nudger struct {
	Client  client.Client
	StoreID string
	// TaskQueue is where runs are started; empty = the store's.
	TaskQueue string
}

// Nudge hints to one thread. A main thread without an open run gets one; the
// run of a sub-agent is started by its delegator, so a hint to one that does
// not run is dropped.
func (n Nudger) Nudge(ctx context.Context, t contract.NudgeTarget) error {
	if t.CancelTurn != "" {
		return ignoreGone(n.Client.SignalWorkflow(ctx, t.Thread, "", contract.SignalCancel, contract.CancelSignal{Turn: t.CancelTurn}))
	}
	if strings.HasPrefix(t.Thread, "agent:") {
		return ignoreGone(n.Client.SignalWorkflow(ctx, t.Thread, "", contract.SignalNudge, nil))
	}
	return n.start(ctx, t.Thread, contract.ConversationTurn, "conversation "+t.Thread, nil)
}

// StartSubAgent starts a sub-agent's run without a delegator: for background
// children whose delegator ended before it could. It names who ordered the work.
func (n Nudger) StartSubAgent(ctx context.Context, t agent.Thread) error {
	memo := map[string]any{"parentThread": t.ParentThreadID, "parentToolCallId": t.ParentToolCallID, "task": t.Topic}
	return n.start(ctx, t.ID, contract.SubAgentTurn, t.AgentType+": "+t.Topic+", sub-agent of "+t.ParentThreadID, memo)
}

// Queue is the task queue where runs are started.
func (n Nudger) Queue() string {
	return cmp.Or(n.TaskQueue, agent.TaskQueue(n.StoreID))
}

func (n Nudger) start(ctx context.Context, thread, typ, summary string, memo map[string]any) error {
	_, err := n.Client.SignalWithStartWorkflow(ctx, thread, contract.SignalNudge, nil, client.StartWorkflowOptions{
		ID: thread, TaskQueue: n.Queue(), WorkflowTaskTimeout: contract.WorkflowTaskTimeout,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            summary,
		Memo:                     memo,
	}, typ, contract.TurnInput{StoreID: n.StoreID, ThreadID: thread})
	return err
}

func ignoreGone(err error) error {
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil
	}
	return err
}

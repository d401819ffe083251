package spool

import (
	"context"
	"errors"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/internal/runs"
)

// Run is one workflow run of a thread.
type Run = runs.Run

// Runs lists the workflow runs of a thread that Temporal still knows, oldest first.
func (c *Client) Runs(ctx context.Context, threadID string) ([]Run, error) {
	if err := c.canAsk(ctx, threadID); err != nil {
		return nil, err
	}
	return runs.List(ctx, c.temporal, c.o.Namespace, threadID)
}

// History returns the history of one run of a thread, of the latest if runID is
// empty, as the JSON that Temporal's tools and replayers read.
func (c *Client) History(ctx context.Context, threadID, runID string) ([]byte, error) {
	if runID != "" && uuid.Validate(runID) != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "run id %q is not valid: use one that a listing of all runs (history --all) names", runID)
	}
	if err := c.canAsk(ctx, threadID); err != nil {
		return nil, err
	}
	return runs.History(ctx, c.temporal, threadID, runID)
}

// canAsk checks that the thread is the user's and that Temporal is there.
func (c *Client) canAsk(ctx context.Context, threadID string) error {
	if _, err := c.Thread(ctx, threadID); err != nil {
		return err
	}
	if c.temporal == nil {
		return c.unreachable(nil)
	}
	return nil
}

// OpenRun reports whether a thread's workflow id has an open run.
func (c *Client) OpenRun(ctx context.Context, threadID string) (bool, error) {
	d, err := c.describe(ctx, threadID)
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return false, nil
	case err != nil:
		return false, c.unreachable(err)
	}
	return isOpen(d), nil
}

func (c *Client) describe(ctx context.Context, threadID string) (*client.WorkflowExecutionDescription, error) {
	if c.temporal == nil {
		return nil, c.unreachable(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	return c.temporal.DescribeWorkflow(ctx, threadID, "")
}

func isOpen(d *client.WorkflowExecutionDescription) bool {
	return d.RawResponse.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// trouble names a failing workflow task and its cause. It is best effort: what
// Temporal cannot say is left out.
func (c *Client) trouble(ctx context.Context, threadID string) string {
	d, err := c.describe(ctx, threadID)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	found, _ := nudge.FindTrouble(ctx, c.temporal, c.o.Namespace, d.RawResponse)
	return found.Cause
}

package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/temporalproto"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/nudge"
)

// Run is one workflow run of a thread.
type Run struct {
	RunID   string    `json:"runId"`
	Status  string    `json:"status"`
	Started time.Time `json:"startedAt"`
	Events  int64     `json:"events"`
}

func runOf(e *workflowpb.WorkflowExecutionInfo) Run {
	return Run{RunID: e.GetExecution().GetRunId(), Status: e.GetStatus().String(), Started: e.GetStartTime().AsTime(), Events: e.GetHistoryLength()}
}

// Runs lists the workflow runs of a thread that Temporal still knows, oldest first.
func (c *Client) Runs(ctx context.Context, threadID string) ([]Run, error) {
	if err := c.canAsk(ctx, threadID); err != nil {
		return nil, err
	}
	latest, err := c.temporal.DescribeWorkflow(ctx, threadID, "")
	if err != nil {
		return nil, c.historyError(threadID, err)
	}
	runs := []Run{runOf(latest.RawResponse.GetWorkflowExecutionInfo())}
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: c.o.Namespace,
		Query:     fmt.Sprintf("WorkflowId = \"%s\"", strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(threadID)),
	}
	for {
		list, err := c.temporal.ListWorkflow(ctx, request)
		if err != nil {
			return nil, c.historyError(threadID, err)
		}
		for _, e := range list.GetExecutions() {
			if r := runOf(e); r.RunID != runs[0].RunID {
				runs = append(runs, r)
			}
		}
		if request.NextPageToken = list.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return a.Started.Compare(b.Started) })
	return runs, nil
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
	var h historypb.History
	events := c.temporal.GetWorkflowHistory(ctx, threadID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, c.historyError(threadID, err)
		}
		h.Events = append(h.Events, e)
	}
	raw, err := temporalproto.CustomJSONMarshalOptions{Indent: "  "}.Marshal(&h)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInternal, "cannot write the history of %s as JSON", threadID)
	}
	return raw, nil
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

func (c *Client) historyError(threadID string, err error) error {
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return agent.Wrap(err, agent.CodeNotFound, "Temporal has no run of %s (never started, or its retention is over)", threadID)
	}
	return c.unreachable(err)
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

// describe asks Temporal for a thread's latest run.
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
	if c.temporal == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	found, err := nudge.FindTrouble(ctx, c.temporal, c.o.Namespace, threadID)
	if err != nil {
		return ""
	}
	return found.Cause
}

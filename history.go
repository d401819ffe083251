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
	"go.temporal.io/api/workflowservice/v1"

	"github.com/spool-agents/spool/agent"
)

// Run is one workflow run of a thread.
type Run struct {
	RunID   string    `json:"runId"`
	Status  string    `json:"status"`
	Started time.Time `json:"startedAt"`
	Events  int64     `json:"events"`
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
	info := latest.RawResponse.GetWorkflowExecutionInfo()
	runs := []Run{{RunID: info.GetExecution().GetRunId(), Status: info.GetStatus().String(), Started: info.GetStartTime().AsTime(), Events: info.GetHistoryLength()}}
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
			r := Run{RunID: e.GetExecution().GetRunId(), Status: e.GetStatus().String(), Started: e.GetStartTime().AsTime(), Events: e.GetHistoryLength()}
			if r.RunID != runs[0].RunID {
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
	if _, err := c.thread(ctx, threadID); err != nil {
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
	if c.temporal == nil {
		return false, c.unreachable(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	d, err := c.temporal.DescribeWorkflow(ctx, threadID, "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return false, nil
	case err != nil:
		return false, c.unreachable(err)
	}
	return d.RawResponse.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

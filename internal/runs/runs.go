// Package runs asks Temporal about the workflow runs of threads, and says what its
// errors mean.
package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/temporalproto"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/agent"
)

// Timeout bounds one request to Temporal.
const Timeout = 10 * time.Second

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

// List lists the workflow runs of a thread that Temporal still knows, oldest first.
func List(ctx context.Context, c client.Client, namespace, threadID string) ([]Run, error) {
	latest, err := c.DescribeWorkflow(ctx, threadID, "")
	if err != nil {
		return nil, noHistory(threadID, err)
	}
	runs := []Run{runOf(latest.RawResponse.GetWorkflowExecutionInfo())}
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: namespace,
		Query:     fmt.Sprintf("WorkflowId = \"%s\"", strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(threadID)),
	}
	for {
		list, err := c.ListWorkflow(ctx, request)
		if err != nil {
			return nil, noHistory(threadID, err)
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
func History(ctx context.Context, c client.Client, threadID, runID string) ([]byte, error) {
	var h historypb.History
	events := c.GetWorkflowHistory(ctx, threadID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, noHistory(threadID, err)
		}
		h.Events = append(h.Events, e)
	}
	raw, err := temporalproto.CustomJSONMarshalOptions{Indent: "  "}.Marshal(&h)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInternal, "cannot write the history of %s as JSON", threadID)
	}
	return raw, nil
}

func noHistory(threadID string, err error) error {
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return agent.Wrap(err, agent.CodeNotFound, "Temporal has no run of %s (never started, or its retention is over)", threadID)
	}
	return Unreachable(err)
}

// Unreachable is what an error of Temporal means where nothing else was asked; a nil
// one means that there is no client.
func Unreachable(cause error) error {
	var busy *serviceerror.ResourceExhausted
	var late *serviceerror.DeadlineExceeded
	switch {
	case cause == nil:
		return agent.Errorf(agent.CodeUnavailable, "Temporal cannot be reached")
	case errors.As(cause, &busy):
		return agent.Wrap(cause, agent.CodeUnavailable, "Temporal is there, but takes no more requests at the moment")
	case errors.As(cause, &late), errors.Is(cause, context.DeadlineExceeded):
		return agent.Errorf(agent.CodeUnavailable, "Temporal did not answer within %s", Timeout)
	}
	return Refused(cause, "Temporal cannot be reached")
}

// Refused is what an error of Temporal means for a person: what, unless the server is
// there and has no such namespace.
func Refused(cause error, what string, args ...any) error {
	var missing *serviceerror.NamespaceNotFound
	if !errors.As(cause, &missing) {
		return agent.Wrap(cause, agent.CodeUnavailable, what, args...)
	}
	return agent.Errorf(agent.CodeUnavailable, "the Temporal server has no namespace %[1]s: name another one (TEMPORAL_NAMESPACE), or make it with `temporal operator namespace create %[1]s`", missing.Namespace)
}

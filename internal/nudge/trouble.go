package nudge

import (
	"context"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/internal/contract"
)

// Trouble is what keeps the open run of a thread from advancing: its workflow task
// fails again and again.
type Trouble struct {
	Cause string // empty if nothing does
	// Sure means that a worker said so; otherwise one may just have died.
	Sure bool
	// OtherBuild means that the workers at hand cannot go on with what another build
	// has begun: its history has other commands, or its state is newer.
	OtherBuild bool
	// Unsaid means that attempts fail and no event says why: the server writes down
	// the first alone, and that one ended without an answer, as when its worker died. A
	// signal makes it write the next one down.
	Unsaid bool
}

// FindTrouble looks at a run that was described. The number of attempts alone does
// not tell, as each signal makes the server begin to count anew.
func FindTrouble(ctx context.Context, c client.Client, namespace string, run *workflowservice.DescribeWorkflowExecutionResponse) (found Trouble, err error) {
	task := run.GetPendingWorkflowTask()
	if task == nil {
		return Trouble{}, nil
	}
	h, err := c.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace:       namespace,
		Execution:       run.GetWorkflowExecutionInfo().GetExecution(),
		MaximumPageSize: 100,
	})
	if err != nil {
		return Trouble{}, err
	}
	const fails = "the workflow task fails"
events:
	for _, e := range h.GetHistory().GetEvents() {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
			f := e.GetWorkflowTaskFailedEventAttributes()
			switch f.GetCause() {
			case enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
				return Trouble{}, nil // a signal came in between, or a person reset the run
			}
			said := f.GetFailure().GetMessage()
			found.Cause, found.Sure = fails+": "+f.GetCause().String()+": "+said, true
			found.OtherBuild = f.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR || strings.Contains(said, contract.NewerBuild)
			return found, nil
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			break events
		}
	}
	if n := task.GetAttempt(); n > 1 {
		found.Cause, found.Sure = fails, n > 2
		found.Unsaid = found.Sure
	}
	return found, nil
}

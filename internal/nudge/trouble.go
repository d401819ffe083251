package nudge

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Trouble names what keeps the open run of a thread from advancing, "" if
// nothing does: its workflow task fails again and again. Sure means that a worker
// said so; otherwise one may just have died. The number of attempts alone does
// not tell, as each signal makes the server begin to count anew.
func Trouble(ctx context.Context, c client.Client, namespace, thread string) (cause string, sure bool, err error) {
	d, err := c.DescribeWorkflow(ctx, thread, "")
	if err != nil {
		return "", false, err
	}
	task := d.RawResponse.GetPendingWorkflowTask()
	if task == nil {
		return "", false, nil
	}
	h, err := c.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace:       namespace,
		Execution:       &commonpb.WorkflowExecution{WorkflowId: thread, RunId: d.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()},
		MaximumPageSize: 100,
	})
	if err != nil {
		return "", false, err
	}
	const fails = "the workflow task fails"
	for _, e := range h.GetHistory().GetEvents() {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
			f := e.GetWorkflowTaskFailedEventAttributes()
			switch f.GetCause() {
			case enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
				return "", false, nil // a signal came in between, or a person reset the run
			}
			return fails + ": " + f.GetCause().String() + ": " + f.GetFailure().GetMessage(), true, nil
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			return "", false, nil
		}
	}
	if task.GetAttempt() > 1 {
		return fails, task.GetAttempt() > 2, nil
	}
	return "", false, nil
}

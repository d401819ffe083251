package workflows

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
)

func environment() *testsuite.TestWorkflowEnvironment {
	var s testsuite.WorkflowTestSuite
	env := s.NewTestWorkflowEnvironment()
	Register(env)
	return env
}

// A worker that dies between a cancel and its settlement: Temporal ends its activity
// as timed out and does not repeat it. The turn is cancelled, not failed.
func TestFault_D8_ACancelledTurnWhoseWorkerDiesIsCancelled(t *testing.T) {
	lost := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	stale := temporal.NewNonRetryableApplicationError("closed", contract.ErrTypeStale, nil)
	for name, c := range map[string]struct {
		stop      agent.ThreadStatus
		err, want error
	}{
		"told to stop, then lost":   {agent.ThreadCancelled, lost, errCancelled},
		"over its time, then lost":  {agent.ThreadFailed, lost, errCancelled},
		"told to stop, then closed": {agent.ThreadCancelled, stale, errStale},
		"lost for good":             {"", lost, lost},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment()
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				ended, settle := workflow.NewFuture(ctx)
				settle.SetError(c.err)
				if _, err := await[contract.ModelOutput](&run{save: ctx, stop: c.stop}, ended); !errors.Is(err, c.want) {
					return errors.New("await returned " + err.Error())
				}
				return nil
			})
			require.NoError(t, env.GetWorkflowError())
		})
	}
}

// State of a newer build fails the workflow task, so that a worker of that build
// takes it, and never the workflow.
func TestANewerCarryFailsTheTaskOnly(t *testing.T) {
	env := environment()
	env.ExecuteWorkflow(contract.ConversationTurn, contract.TurnInput{ThreadID: "s/default", Carry: &contract.Carry{Version: contract.StateVersion + 1}})
	var panicked *temporal.PanicError // a worker's policy makes it a failed task
	require.ErrorAs(t, env.GetWorkflowError(), &panicked)
	require.ErrorContains(t, panicked, "state of a newer build")
}

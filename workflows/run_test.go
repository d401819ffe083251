package workflows

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
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

// Quick calls run in the local activity that saves their round. One that took too long
// there gets an activity of its own, and then the round is saved.
func TestAQuickCallThatTakesLongGetsAnActivity(t *testing.T) {
	env := environment()
	slow, fast := contract.Call{ID: "slow", Quick: true, TimeoutMs: 1000}, contract.Call{ID: "fast", Quick: true, TimeoutMs: 1000}
	var did []string
	act := func(name string, f any) { env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	act(contract.SaveUserMessage, func(context.Context, contract.ClaimInput) (contract.ClaimOutput, error) {
		if len(did) > 0 {
			return contract.ClaimOutput{}, nil
		}
		return contract.ClaimOutput{Turn: "turn", Step: 1, Timing: contract.Timing{HeartbeatMs: 1000}}, nil
	})
	act(contract.CallModel, func(_ context.Context, in contract.Ref) (contract.ModelOutput, error) {
		if in.Step > 1 {
			return contract.ModelOutput{}, nil
		}
		return contract.ModelOutput{Calls: []contract.Call{slow, fast}}, nil
	})
	act(contract.SaveToolRound, func(_ context.Context, in contract.RoundInput) (contract.RoundOutput, error) {
		did = append(did, fmt.Sprint("round ", in.Step, in.Run))
		if len(in.Run) > 0 {
			return contract.RoundOutput{Left: []string{"slow"}}, nil
		}
		return contract.RoundOutput{}, nil
	})
	act(contract.RunTool, func(_ context.Context, in contract.Ref) (contract.ToolOutput, error) {
		did = append(did, "tool "+in.Call)
		return contract.ToolOutput{}, nil
	})
	act(contract.SaveFinalAnswer, func(_ context.Context, in contract.CloseInput) (contract.CloseOutput, error) {
		did = append(did, fmt.Sprint("answer ", in.Step))
		return contract.CloseOutput{Outcome: in.Outcome}, nil
	})
	env.ExecuteWorkflow(contract.ConversationTurn, contract.TurnInput{ThreadID: "s/default"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"round 1 [slow fast]", "tool slow", "round 1 []", "answer 2"}, did)
}

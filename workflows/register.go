package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/internal/contract"
)

// Register adds the workflow types to a worker or a replayer under their pinned names.
func Register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(ConversationTurn, workflow.RegisterOptions{Name: contract.ConversationTurn})
	r.RegisterWorkflowWithOptions(SubAgentTurn, workflow.RegisterOptions{Name: contract.SubAgentTurn})
}

// ConversationTurn runs the turns of a main thread: one per run, continuing as
// new while the inbox holds more.
func ConversationTurn(ctx workflow.Context, in contract.TurnInput) (contract.TurnResult, error) {
	return start(ctx, in, contract.ConversationTurn)
}

// SubAgentTurn runs one turn of a sub-agent's thread, usually as a child workflow.
func SubAgentTurn(ctx workflow.Context, in contract.TurnInput) (contract.TurnResult, error) {
	return start(ctx, in, contract.SubAgentTurn)
}

package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/memory"
)

func modelCall(ref contract.Ref, begun memory.ModelStart, request agent.ModelRequest, attempt int) telemetry.ModelCall {
	return telemetry.ModelCall{Thread: begun.Thread, TurnID: ref.Turn, Step: ref.Step, Attempt: attempt, Request: request}
}

// lostModel tells of the attempt before, if it was lost with its worker.
func (a *Activities) lostModel(ctx context.Context, ref contract.Ref, begun memory.ModelStart, request agent.ModelRequest) {
	if begun.Lost == 0 || a.Telemetry == nil {
		return
	}
	since := time.Now()
	if begun.Lost == 1 { // it was made at once
		since = activity.GetInfo(ctx).ScheduledTime
	}
	a.Telemetry.LostModel(ctx, modelCall(ref, begun, request, begun.Lost), since)
}

func (a *Activities) toolCall(begun memory.ToolStart, attempt int) telemetry.ToolCall {
	name := begun.Call.ToolName
	_, known := a.Tools.Lookup(name)
	known = known || name == agent.ToolTaskOutput || name == agent.ToolOutput
	return telemetry.ToolCall{Thread: begun.Thread, Call: begun.Call, Attempt: attempt, Known: known}
}

package activities

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
)

// toolOutput runs tool_output: it reads the store and changes nothing.
func (a *Activities) toolOutput(ctx context.Context, thread agent.Thread, call agent.ToolCall) (agent.ToolResult, error) {
	p, err := agent.ParseToolOutputParams(call.Args)
	if err != nil {
		return agent.ToolFailed(agent.ErrInvalidInput, "%v", err), nil
	}
	return steps.Get(func() agent.ToolResult {
		of, there := steps.Found(a.Store.ToolCall(ctx, p.ToolCallID))
		switch {
		case !there || !a.mayRead(ctx, thread, of.ThreadID):
			return agent.ToolFailed(agent.ErrNotFound, "There is no tool call %q among yours and your sub-agents'.", agent.CleanText(p.ToolCallID))
		case !of.Status.Final():
			return agent.ToolFailed(agent.ErrNotFound, "The call %s has no output yet: it is %s.", of.ID, of.Status)
		}
		part, err := agent.FormatToolOutput(steps.Must(a.Store.ToolOutput(ctx, of.ID)), p)
		if err != nil {
			return agent.ToolFailed(agent.ErrInvalidInput, "%v", err)
		}
		return agent.ToolOK(part)
	})
}

// mayRead reports whether a thread's agent may read another thread: its own, one
// below it, or one whose conversation it was given.
func (a *Activities) mayRead(ctx context.Context, reader agent.Thread, threadID string) bool {
	for at := reader; ; at = steps.Must(a.Store.Thread(ctx, "", at.ParentThreadID)) {
		if at.ID == threadID {
			return true
		}
		if at.Config.SharedSeq == 0 || at.ParentThreadID == "" {
			break
		}
	}
	for id := threadID; id != ""; {
		at := steps.Must(a.Store.Thread(ctx, "", id))
		if at.ParentThreadID == reader.ID {
			return true
		}
		id = at.ParentThreadID
	}
	return false
}

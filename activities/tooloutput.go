package activities

import (
	"context"

	"github.com/spool-agents/spool/agent"
)

// toolOutput runs tool_output: it reads the store and changes nothing.
func (a *Activities) toolOutput(ctx context.Context, thread agent.Thread, call agent.ToolCall) (agent.ToolResult, error) {
	p, err := agent.ParseToolOutputParams(call.Args)
	if err != nil {
		return agent.ToolFailed(agent.ErrInvalidInput, "%v", err), nil
	}
	missing := agent.ToolFailed(agent.ErrNotFound, "There is no tool call %q among yours and your sub-agents'.", agent.CleanText(p.ToolCallID))
	of, err := a.Store.ToolCall(ctx, p.ToolCallID)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return missing, nil
	}
	if err != nil {
		return agent.ToolResult{}, err
	}
	may, err := a.mayRead(ctx, thread, of.ThreadID)
	switch {
	case err != nil:
		return agent.ToolResult{}, err
	case !may:
		return missing, nil
	case !of.Status.Final():
		return agent.ToolFailed(agent.ErrNotFound, "The call %s has no output yet: it is %s.", of.ID, of.Status), nil
	}
	output, err := a.Store.ToolOutput(ctx, of.ID)
	if err != nil {
		return agent.ToolResult{}, err
	}
	part, err := agent.FormatToolOutput(output, p)
	if err != nil {
		return agent.ToolFailed(agent.ErrInvalidInput, "%v", err), nil
	}
	return agent.ToolOK(part), nil
}

// mayRead reports whether a thread's agent may read another thread: its own, one
// below it, or one whose conversation it was given.
func (a *Activities) mayRead(ctx context.Context, reader agent.Thread, threadID string) (bool, error) {
	for at := reader; ; {
		if at.ID == threadID {
			return true, nil
		}
		if at.Config.SharedSeq == 0 || at.ParentThreadID == "" {
			break
		}
		var err error
		if at, err = a.Store.Thread(ctx, "", at.ParentThreadID); err != nil {
			return false, err
		}
	}
	for id := threadID; id != ""; {
		at, err := a.Store.Thread(ctx, "", id)
		if err != nil {
			return false, err
		}
		if at.ParentThreadID == reader.ID {
			return true, nil
		}
		id = at.ParentThreadID
	}
	return false, nil
}

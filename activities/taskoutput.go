package activities

import (
	"context"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

const (
	// A call of task_output that waits asks ever less often.
	firstLook, lastLook = 100 * time.Millisecond, time.Second
	// latestText bounds what is shown of a sub-agent at work, in bytes.
	latestText = 2000
)

// await is the error that makes Temporal repeat a call of task_output soon: the
// sub-agent it waits for is still at work. Between two looks the call holds no
// slot of a worker, so that waiting parents cannot keep their children from
// running. It is nil when there is nothing (more) to wait for.
func (a *Activities) await(ctx context.Context, call agent.ToolCall) error {
	p, err := agent.ParseTaskOutputParams(call.Args)
	if err != nil || p.WaitMs == 0 || call.Status.Final() {
		return nil //nolint:nilerr // wrong arguments are a result, not something to wait for
	}
	info := activity.GetInfo(ctx)
	left := time.Duration(p.WaitMs)*time.Millisecond - time.Since(info.ScheduledTime)
	if left <= 0 {
		return nil
	}
	turn, err := a.Store.Turn(ctx, call.TurnID)
	if err != nil || turn.State != memory.TurnOpen || turn.CancelRequested != nil {
		return err
	}
	states, err := a.taskStates(ctx, call.ThreadID, p.AgentID)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Working() {
			delay := min(firstLook<<min(info.Attempt-1, 8), lastLook, left)
			return waiting("sub-agent "+s.AgentID+" is still at work", delay)
		}
	}
	return nil
}

// waiting makes Temporal try again soon; until then no slot is held.
func waiting(what string, delay time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(what, contract.ErrTypeWaiting,
		temporal.ApplicationErrorOptions{NextRetryDelay: delay, Category: temporal.ApplicationErrorCategoryBenign})
}

// taskOutput runs task_output: it reads the store and changes nothing.
func (a *Activities) taskOutput(ctx context.Context, call agent.ToolCall) (agent.ToolResult, error) {
	p, err := agent.ParseTaskOutputParams(call.Args)
	if err != nil {
		return agent.ToolFailed(agent.ErrInvalidInput, "%v", err), nil
	}
	states, err := a.taskStates(ctx, call.ThreadID, p.AgentID)
	if err != nil {
		return agent.ToolResult{}, err
	}
	switch {
	case p.AgentID == "":
		return agent.ToolOK(agent.FormatTaskList(states)), nil
	case len(states) == 0:
		return agent.ToolFailed(agent.ErrNotFound, "%s", agent.RefuseTaskUnknown(p.AgentID)), nil
	case states[0].Working():
		return agent.ToolOK(agent.FormatTaskState(states[0])), nil
	}
	turns, err := a.Store.TurnsOf(ctx, states[0].ThreadID)
	if err != nil {
		return agent.ToolResult{}, err
	}
	return agent.ToolOK(agent.FormatDelegationResult(outcome(states[0], turns))), nil
}

// outcome is the end of a sub-agent's latest turn. One whose only task was
// dropped before it began has had none.
func outcome(s agent.TaskState, turns []memory.Turn) agent.DelegationOutcome {
	o := agent.DelegationOutcome{AgentType: s.AgentType, AgentID: s.AgentID, ThreadID: s.ThreadID, Status: s.Status, Reason: s.Reason}
	if len(turns) == 0 {
		return o
	}
	last := turns[len(turns)-1]
	o.Status, o.Reason, o.Error, o.Usage, o.Answer = last.Outcome, last.Reason, last.Error, last.Usage, last.Answer
	if last.ClosedAt != nil {
		o.Duration = last.ClosedAt.Sub(last.OpenedAt)
	}
	return o
}

// taskStates are the children of a thread, or the one descendant named; none if
// the thread has no such descendant.
func (a *Activities) taskStates(ctx context.Context, threadID, agentID string) ([]agent.TaskState, error) {
	var threads []agent.Thread
	var err error
	if agentID == "" {
		threads, err = a.children(ctx, threadID)
	} else {
		threads, err = a.descendant(ctx, threadID, agentID)
	}
	if err != nil {
		return nil, err
	}
	var states []agent.TaskState
	for _, th := range threads {
		s, err := a.taskState(ctx, th)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}

// children are a thread's sub-agents in the order of the calls that made them:
// those of one reply are made at the same time, in any order.
func (a *Activities) children(ctx context.Context, threadID string) ([]agent.Thread, error) {
	threads, err := a.Store.Children(ctx, threadID)
	if err != nil || len(threads) < 2 {
		return threads, err
	}
	calls, err := a.Store.ToolCalls(ctx, threadID)
	position := make(map[string]int, len(calls))
	for i, c := range calls {
		position[c.ID] = i
	}
	slices.SortStableFunc(threads, func(x, y agent.Thread) int { return position[x.ParentToolCallID] - position[y.ParentToolCallID] })
	return threads, err
}

// descendant finds a sub-agent below a thread.
func (a *Activities) descendant(ctx context.Context, threadID, agentID string) ([]agent.Thread, error) {
	id := agent.ThreadOfAgent(agentID)
	if id == "" {
		return nil, nil
	}
	found, err := a.Store.Thread(ctx, "", id)
	for at := found; err == nil && at.ParentThreadID != ""; at, err = a.Store.Thread(ctx, "", at.ParentThreadID) {
		if at.ParentThreadID == threadID {
			return []agent.Thread{found}, nil
		}
	}
	if agent.CodeOf(err) == agent.CodeNotFound {
		err = nil
	}
	return nil, err
}

func (a *Activities) taskState(ctx context.Context, th agent.Thread) (agent.TaskState, error) {
	s := agent.TaskState{AgentType: th.AgentType, AgentID: th.AgentID, ThreadID: th.ID, Status: th.Status, Reason: th.Reason, Description: th.Topic}
	if th.OpenTurnID == "" {
		// A task that waits in its inbox is work to come.
		entries, err := a.Store.Inbox(ctx, th.ID)
		for _, e := range entries {
			if e.Kind == memory.EntryAssign && e.State == memory.EntryWaiting {
				s.Status = agent.ThreadPending
			}
		}
		return s, err
	}
	turn, err := a.Store.Turn(ctx, th.OpenTurnID)
	if err != nil {
		return s, err
	}
	s.Duration, s.Usage = max(0, time.Since(turn.OpenedAt)), turn.Usage
	asked, err := a.Store.Questions(ctx, memory.QuestionFilter{ThreadID: th.ID, OpenOnly: true})
	if err != nil {
		return s, err
	}
	for _, q := range asked {
		s.Asks = append(s.Asks, agent.Shorten(q.Text, latestText, ""))
	}
	streamed, err := a.Store.Stream(ctx, th.ID)
	if err != nil {
		return s, err
	}
	if streamed != nil && streamed.Text != "" {
		s.Text = agent.Shorten(streamed.Text, latestText, "")
		return s, nil
	}
	messages, err := a.Store.Messages(ctx, th.ID, max(0, th.MessageCount-20), 0)
	for _, m := range messages {
		if m.Role == agent.RoleAssistant && m.TurnID == turn.ID && !m.Content.IsEmpty() {
			s.Text = agent.Shorten(m.Content.String(), latestText, "")
		}
	}
	return s, err
}

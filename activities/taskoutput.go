package activities

import (
	"context"
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
	o := outcome(states[0], turns)
	if o.StartedBy != "" {
		o.Through, err = a.through(ctx, call.ThreadID, o.ThreadID)
	}
	return agent.ToolOK(agent.DelegationResultFormatter{}.Result(o)), err
}

// outcome is the end of a sub-agent's latest turn. One whose only task was
// dropped before it began has had none.
func outcome(s agent.TaskState, turns []memory.Turn) agent.SpecialistAgentResult {
	o := agent.SpecialistAgentResult{AgentType: s.AgentType, AgentID: s.AgentID, ThreadID: s.ThreadID, Status: s.Status, Reason: s.Reason, StartedBy: s.StartedBy}
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
		if threads, err = a.Store.Children(ctx, threadID); err == nil {
			var adopted []agent.Thread
			adopted, err = a.adopted(ctx, threadID, threads)
			threads = append(threads, adopted...)
		}
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
		if th.ParentThreadID != threadID {
			s.StartedBy = agentIDOf(th.ParentThreadID)
		}
		states = append(states, s)
	}
	return states, nil
}

// adopted are background sub-agents that others below a thread started and whose
// ends are reported to this thread: those that were, and those that will be because
// nobody in between is at work.
func (a *Activities) adopted(ctx context.Context, threadID string, own []agent.Thread) ([]agent.Thread, error) {
	entries, err := a.Store.Inbox(ctx, threadID)
	if err != nil {
		return nil, err
	}
	reported := map[string]bool{}
	for _, e := range entries {
		reported[e.ChildThread] = reported[e.ChildThread] || e.Kind == memory.EntryChild && e.Background
	}
	var found []agent.Thread
	for idle := own; len(idle) > 0; idle = idle[1:] {
		children, err := a.Store.Children(ctx, idle[0].ID)
		if err != nil {
			return nil, err
		}
		for _, c := range children {
			reports := idle[0].OpenTurnID == "" && c.OpenTurnID != ""
			if reported[c.ID] || reports {
				found = append(found, c)
			}
			idle = append(idle, c)
		}
	}
	return found, nil
}

// through is the sub-agent of a thread that leads to a descendant.
func (a *Activities) through(ctx context.Context, threadID, descendant string) (string, error) {
	for id := descendant; ; {
		th, err := a.Store.Thread(ctx, "", id)
		if err != nil || th.ParentThreadID == threadID {
			return th.AgentID, err
		}
		id = th.ParentThreadID
	}
}

// agentIDOf is the agent id in a sub-agent's thread id.
func agentIDOf(threadID string) string {
	id, err := agent.ParseThreadID(threadID)
	if err != nil {
		return threadID
	}
	return id.AgentID
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
				// Its age tells one look from the next: looking is no loop.
				s.Status, s.Duration = agent.ThreadPending, max(s.Duration, time.Since(e.CreatedAt))
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

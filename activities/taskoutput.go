package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
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
	for _, s := range states {
		if s.Working() {
			delay := min(firstLook<<min(info.Attempt-1, 8), lastLook, left)
			return waiting("sub-agent "+s.AgentID+" is still at work", delay)
		}
	}
	return err
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
	return steps.Get(func() agent.ToolResult {
		states := steps.Must(a.taskStates(ctx, call.ThreadID, p.AgentID))
		switch {
		case p.AgentID == "":
			return agent.ToolOK(agent.FormatTaskList(states))
		case len(states) == 0:
			return agent.ToolFailed(agent.ErrNotFound, "not_found: this thread has no sub-agent %q. Call task_output without agentId to list its sub-agents.", p.AgentID)
		case states[0].Working():
			return agent.ToolOK(agent.FormatTaskState(states[0]))
		}
		o := outcome(states[0], steps.Must(a.Store.TurnsOf(ctx, states[0].ThreadID)))
		if o.StartedBy != "" {
			o.Through = steps.Must(a.through(ctx, call.ThreadID, o.ThreadID))
		}
		return agent.ToolOK(agent.DelegationResultFormatter{}.Result(o))
	})
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
	return steps.Get(func() (states []agent.TaskState) {
		var threads []agent.Thread
		if agentID == "" {
			threads = steps.Must(a.Store.Children(ctx, threadID))
			threads = append(threads, a.adopted(ctx, threadID, threads)...)
		} else {
			threads = a.descendant(ctx, threadID, agentID)
		}
		for _, th := range threads {
			s := a.taskState(ctx, th)
			if th.ParentThreadID != threadID {
				s.StartedBy = agentIDOf(th.ParentThreadID)
			}
			states = append(states, s)
		}
		return states
	})
}

// adopted are background sub-agents that others below a thread started and whose
// ends are reported to this thread: those that were, and those that will be because
// nobody in between is at work.
func (a *Activities) adopted(ctx context.Context, threadID string, own []agent.Thread) (found []agent.Thread) {
	reported := map[string]bool{}
	for _, e := range steps.Must(a.Store.Inbox(ctx, threadID)) {
		reported[e.ChildThread] = reported[e.ChildThread] || e.Kind == memory.EntryChild && e.Background
	}
	for idle := own; len(idle) > 0; idle = idle[1:] {
		for _, c := range steps.Must(a.Store.Children(ctx, idle[0].ID)) {
			reports := idle[0].OpenTurnID == "" && c.OpenTurnID != ""
			if reported[c.ID] || reports {
				found = append(found, c)
			}
			idle = append(idle, c)
		}
	}
	return found
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

func agentIDOf(threadID string) string {
	id, err := agent.ParseThreadID(threadID)
	if err != nil {
		return threadID
	}
	return id.AgentID
}

func (a *Activities) descendant(ctx context.Context, threadID, agentID string) []agent.Thread {
	id := agent.ThreadOfAgent(agentID)
	if id == "" {
		return nil
	}
	found, err := a.Store.Thread(ctx, "", id)
	for at := found; err == nil && at.ParentThreadID != ""; at, err = a.Store.Thread(ctx, "", at.ParentThreadID) {
		if at.ParentThreadID == threadID {
			return []agent.Thread{found}
		}
	}
	if agent.CodeOf(err) != agent.CodeNotFound {
		steps.Check(err)
	}
	return nil
}

func (a *Activities) taskState(ctx context.Context, th agent.Thread) agent.TaskState {
	s := agent.TaskState{AgentType: th.AgentType, AgentID: th.AgentID, ThreadID: th.ID, Status: th.Status, Reason: th.Reason, Description: th.Topic}
	if th.OpenTurnID == "" {
		// A task that waits in its inbox is work to come.
		for _, e := range steps.Must(a.Store.Inbox(ctx, th.ID)) {
			if e.Kind == memory.EntryAssign && e.State == memory.EntryWaiting {
				// Its age tells one look from the next: looking is no loop.
				s.Status, s.Duration = agent.ThreadPending, max(s.Duration, time.Since(e.CreatedAt))
			}
		}
		return s
	}
	turn := steps.Must(a.Store.Turn(ctx, th.OpenTurnID))
	s.Duration, s.Usage = max(0, time.Since(turn.OpenedAt)), turn.Usage
	for _, q := range steps.Must(a.Store.Questions(ctx, memory.QuestionFilter{ThreadID: th.ID, OpenOnly: true})) {
		s.Asks = append(s.Asks, agent.Shorten(q.Text, latestText, ""))
	}
	if streamed := steps.Must(a.Store.Stream(ctx, th.ID)); streamed != nil && streamed.Text != "" {
		s.Text = agent.Shorten(streamed.Text, latestText, "")
		return s
	}
	for _, m := range steps.Must(a.Store.Messages(ctx, th.ID, max(0, th.MessageCount-20), 0)) {
		if m.Role == agent.RoleAssistant && m.TurnID == turn.ID && !m.Content.IsEmpty() {
			s.Text = agent.Shorten(m.Content.String(), latestText, "")
		}
	}
	return s
}

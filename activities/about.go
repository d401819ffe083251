package activities

import (
	"cmp"
	"context"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

const (
	// mostChildren bounds the sub-agents at work that a run shows when it begins.
	mostChildren = 20
	// mostTask bounds what a run says of a task, in bytes.
	mostTask = 200
)

// about is what Temporal's web UI shows of a turn that a run takes up.
func (a *Activities) about(ctx context.Context, t agent.Thread, turn memory.Turn) (*contract.About, error) {
	model := cmp.Or(turn.Fallback, t.Config.Model, a.DefaultModel)
	if t.Config.Provider != "" && turn.Fallback == "" {
		model += "@" + t.Config.Provider
	}
	about := &contract.About{Agent: t.AgentType, Model: model, Parent: turn.DelegatorThread, Tokens: turn.Usage.TotalTokens}
	if t.Kind == agent.KindSubAgent {
		about.Task = oneLine(t.Topic)
	}
	if turn.Steps == 0 { // it has no sub-agents yet
		return about, nil
	}
	working, err := a.Store.Threads(ctx, memory.ThreadFilter{Parent: t.ID, SubAgents: true, Working: true, Limit: mostChildren})
	for _, c := range working {
		about.Children = append(about.Children, contract.Child{Agent: c.AgentType, Thread: c.ID, Task: oneLine(c.Topic)})
	}
	return about, err
}

func oneLine(text string) string {
	return agent.Shorten(strings.Join(strings.Fields(agent.CleanText(text)), " "), mostTask, "…")
}

// showWait tells the run of an activity that its model call is made again later, so
// that Temporal's web UI shows for what the turn waits. It is a hint.
func (a *Activities) showWait(ctx context.Context, turnID string, later *retryLater) {
	if a.Temporal == nil || time.Until(later.wait.Until) < agent.ShortWait {
		return
	}
	what := cmp.Or(later.cause.Model, "the model")
	if p := later.cause.At.Provider; p != "" {
		what += "@" + p
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	run := activity.GetInfo(ctx).WorkflowExecution
	err := a.Temporal.SignalWorkflow(ctx, run.ID, run.RunID, contract.SignalWait, contract.WaitSignal{
		Turn: turnID, For: what + " until " + later.wait.Until.UTC().Format("15:04:05 UTC"),
	})
	if err != nil {
		activity.GetLogger(ctx).Debug("the run could not be told of a wait", "error", err)
	}
}

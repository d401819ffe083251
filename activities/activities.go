package activities

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/memory"
)

// Tools is what the activities need of a tool registry.
type Tools interface {
	// Specs lists the tools of allow (empty or "*" = all) in a stable order.
	Specs(allow []string) []agent.ToolSpec
	Lookup(name string) (agent.Tool, bool)
	// Run never fails: what goes wrong is a result for the model.
	Run(ctx context.Context, name string, r agent.ToolRun) agent.ToolResult
	// Check returns the result of a call that cannot succeed, and true.
	Check(ctx context.Context, name string, r agent.ToolRun) (agent.ToolResult, bool)
	// Gate applies the approval policy to a call.
	Gate(name string, run agent.ToolRun, policy map[string]string) agent.Gate
}

// Catalog resolves agent names to templates.
type Catalog interface {
	Get(name string) (agent.SpecialistAgentConfig, bool)
	List() []agent.SpecialistAgentConfig
}

// Activities holds what the activities work with. All fields are set before
// Register and never change; its methods are safe for concurrent use.
type Activities struct {
	Store    memory.ConversationMemoryStore
	Model    agent.Model
	Tools    Tools
	Catalog  Catalog
	Policy   agent.DelegationPolicy
	Temporal client.Client

	// Fallbacks are the models that take over, in this order, from one that is out
	// of order.
	Fallbacks []string
	// Models knows context windows and prices; nil knows none.
	Models Models
	// MaxSteps bounds main turns whose template does not; 0 = no limit.
	MaxSteps int
	// DefaultModel is used where neither thread nor template names a model.
	DefaultModel string
	// Workspace is the root that threads work under, an absolute path.
	Workspace string
	// Home is Spool's own folder, which file tools do not reach; "" = there is none.
	Home string
	// Private are Spool's files elsewhere, which they do not reach either.
	Private []string
	// Files is where files are kept that tools return and that are no images; "" = nowhere.
	Files string
	// TaskQueue is where nudged runs are started.
	TaskQueue string
	// RetryFor bounds how long a failing model call is retried; 0 = DefaultRetryFor.
	RetryFor time.Duration
	// Heartbeat is the heartbeat timeout of model calls and tools.
	Heartbeat time.Duration
	// MaxEvents makes runs continue as new earlier than by default; for tests.
	MaxEvents int
	// WaitInRun is how long runs wait before they park; 0 = contract.WaitInRun.
	WaitInRun time.Duration
	// SearchAttributes says whether the namespace has ours.
	SearchAttributes bool
	// Telemetry records what happens; nil = nothing does.
	Telemetry *telemetry.Telemetry
	// Cut is closed when activities have to end: their worker does. nil = never.
	Cut <-chan struct{}

	transcripts transcripts
	naming      sync.Once
	worker      string // names this process to the store
	calibration calibration
}

// Defaults of the fields of that name.
const (
	DefaultRetryFor  = 15 * time.Minute
	DefaultHeartbeat = 10 * time.Second
	// DefaultAgent is the template of main threads.
	DefaultAgent = "orchestrator"
)

// Register adds the activities under their pinned names.
func (a *Activities) Register(r worker.ActivityRegistry) {
	a.naming.Do(func() { a.worker = fmt.Sprintf("%d/%s", os.Getpid(), rand.Text()) }) // people are told what stands before the slash
	for name, f := range map[string]any{
		contract.CallModel:        a.CallModel,
		contract.RunTool:          a.RunTool,
		contract.SummarizeContext: a.SummarizeContext,
		contract.Nudge:            a.Nudge,
		contract.SaveUserMessage:  a.SaveUserMessage,
		contract.SaveToolRound:    a.SaveToolRound,
		contract.SaveDenial:       a.SaveDenial,
		contract.SaveFinalAnswer:  a.SaveFinalAnswer,
		contract.CloseTurn:        a.CloseTurn,
		contract.OpenApproval:     a.OpenApproval,
		contract.StepState:        a.StepState,
		contract.OpenQuestion:     a.OpenQuestion,
		contract.QuestionState:    a.QuestionState,
		contract.TurnWaited:       a.TurnWaited,
		contract.OpenDelegation:   a.OpenDelegation,
		contract.TakeChildResult:  a.TakeChildResult,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// budget is that of a tree of agents.
func (a *Activities) budget() memory.Budget {
	return memory.Budget{Tokens: a.Policy.MaxTokens, Price: a.Policy.MaxPrice, Time: a.Policy.MaxTime}
}

// price sets what a use of a model cost, where its provider does not say.
func (a *Activities) price(model string, u agent.Usage) agent.Usage {
	return a.modelInfo(model).Price.Apply(u)
}

// here completes a reference with the thread, which is the workflow's id.
func here(ctx context.Context, ref contract.Ref) contract.Ref {
	if ref.Thread == "" {
		ref.Thread = activity.GetInfo(ctx).WorkflowExecution.ID
	}
	return ref
}

// fence identifies this activity attempt to the store.
func fence(ctx context.Context) memory.Fence {
	info := activity.GetInfo(ctx)
	return memory.Fence{Scope: info.WorkflowExecution.RunID + "/" + info.ActivityID, Number: int(info.Attempt)}
}

// alive heartbeats until stop is called, so that a worker's death is noticed
// within the heartbeat timeout and a cancel arrives. The context it returns also
// ends when the worker has to, early enough to hand the work over. The
// timeout counts from the activity's start, so the first heartbeat is sent when
// it is due: one sent at once is a request to the server that every step waits
// for. A first attempt's death leaves the workflow bound to the dead worker's
// sticky queue: a later attempt releases it.
//
// It also looks for a cancel in the store: a server tells an activity of one with
// the answer to a heartbeat only, seconds later. A store that is away for storeAwayFor
// ends the context with errStoreAway, unless the activity stays for its result.
func (a *Activities) alive(ctx context.Context, turnID string, stays bool) (alive context.Context, stop func()) {
	alive, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(a.beat(ctx, alive, turnID, stays))
	}()
	if activity.GetInfo(ctx).Attempt > 1 {
		a.releaseSticky(ctx)
	}
	return alive, func() {
		cancel(nil)
		<-ended // a heartbeat that meets the activity's end would be logged as an error
	}
}

// beat heartbeats until alive ends, or has to: then it returns why.
func (a *Activities) beat(ctx, alive context.Context, turnID string, stays bool) error {
	every := max(activity.GetInfo(ctx).HeartbeatTimeout/4, 100*time.Millisecond)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	beaten, answered := time.Now(), time.Now()
	for {
		select {
		case <-alive.Done():
			return nil
		case <-a.Cut:
			return errCut
		case <-look.C:
		}
		if time.Since(beaten) >= every {
			beaten = time.Now()
			activity.RecordHeartbeat(ctx)
		}
		reached, err := a.ended(alive, turnID, every)
		if reached {
			answered = time.Now()
		}
		if err == nil && !stays && time.Since(answered) >= storeAwayFor {
			err = errStoreAway
		}
		if err != nil {
			return err
		}
	}
}

const (
	// lookEvery is how often an activity looks whether its turn is to end.
	lookEvery = 150 * time.Millisecond
	// storeAwayFor is how long a model call goes on while its worker does not reach the
	// store. Then another worker makes it again: what it has could not be kept here.
	storeAwayFor = 10 * time.Second
)

// Why an activity has to end, besides what its turn says: another attempt goes on.
var (
	errCut       = errors.New("this worker is shutting down; another one goes on")
	errStoreAway = errors.New("this worker does not reach the store; another one goes on")
)

// handsOver is why the activity of ctx is to be made again elsewhere, or nil.
func handsOver(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errCut) || errors.Is(cause, errStoreAway) {
		return cause
	}
	return nil
}

// ended is why a turn's activities have to stop, or nil, and whether the store has
// answered within a time. A store that is away stops nothing.
func (a *Activities) ended(ctx context.Context, turnID string, within time.Duration) (reached bool, why error) {
	ctx, cancel := context.WithTimeout(ctx, within) // heartbeats wait for it
	defer cancel()
	turn, err := a.Store.Turn(ctx, turnID)
	switch {
	case err != nil:
		return agent.CodeOf(err) != agent.CodeUnavailable && ctx.Err() == nil, nil
	case turn.State != memory.TurnOpen:
		return true, memory.Stale("turn %s is closed", turnID)
	case turn.CancelRequested != nil:
		return true, memory.CancelRequested(turnID)
	}
	return true, nil
}

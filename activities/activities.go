package activities

import (
	"context"
	"crypto/rand"
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
	watch       watch
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
		contract.SaveToolRound:    save(a, a.SaveToolRound),
		contract.SaveDenial:       save(a, a.SaveToolRound), // of a round with a denied call (save point 4)
		contract.SaveFinalAnswer:  save(a, a.CloseTurn),     // of a turn that ends with an answer (save point 3)
		contract.CloseTurn:        save(a, a.CloseTurn),
		contract.OpenApproval:     save(a, a.OpenApproval),
		contract.StepState:        save(a, a.StepState),
		contract.OpenQuestion:     save(a, a.OpenQuestion),
		contract.QuestionState:    save(a, a.QuestionState),
		contract.TurnWaited:       save(a, a.TurnWaited),
		contract.OpenDelegation:   save(a, a.OpenDelegation),
		contract.TakeChildResult:  save(a, a.TakeChildResult),
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// save makes a local activity of a function: its reference has the thread, and its
// error is one for Temporal.
func save[I, O any, P interface {
	*I
	At() *contract.Ref
}](a *Activities, f func(context.Context, I) (O, error)) func(context.Context, I) (O, error) {
	return func(ctx context.Context, in I) (O, error) {
		ref := P(&in).At()
		*ref = here(ctx, *ref)
		out, err := f(ctx, in)
		return out, a.wire(ctx, ref.Turn, err)
	}
}

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

func fence(ctx context.Context) memory.Fence {
	info := activity.GetInfo(ctx)
	return memory.Fence{Scope: info.WorkflowExecution.RunID + "/" + info.ActivityID, Number: int(info.Attempt)}
}

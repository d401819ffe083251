package spool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool/activities"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/health"
	"github.com/spool-agents/spool/internal/keeper"
	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/internal/runs"
	"github.com/spool-agents/spool/internal/serve"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/workflows"
)

// WorkerOptions says what a worker works with. Store, Temporal, Model and Tools are
// required.
type WorkerOptions struct {
	Store    memory.ConversationMemoryStore
	Temporal client.Client
	Model    agent.Model
	Tools    activities.Tools
	// Agents are those of files, as NewAgents finds them; nil = those built in.
	Agents activities.Catalog
	// OwnAgents are agents in code; they come before those of Agents with the same name.
	OwnAgents []agent.SpecialistAgentConfig
	// Policy limits delegation; nil = agent.DefaultDelegationPolicy.
	Policy *agent.DelegationPolicy
	// Fallbacks are the models that take over, in this order, when one is unknown to
	// its provider, without quota, or has failed for RetryFor.
	Fallbacks []string
	// Models knows context windows and prices of models; nil knows none, and a
	// window of 128,000 tokens is assumed.
	Models activities.Models
	// MaxSteps bounds main turns whose template does not; 0 = no limit.
	MaxSteps int
	// DefaultModel is used where neither thread nor template names one.
	DefaultModel string
	// Workspace is the root that threads may work under; "" = the working directory.
	Workspace string
	// Home is Spool's own folder, which file tools do not reach; "" = there is none.
	Home string
	// Private are its files elsewhere, such as the store's, which they do not reach either.
	Private []string
	// Files is the folder for what tools return that models are not shown, audio for
	// one; "" = it is only named.
	Files string
	// Namespace is the Temporal namespace, for its search attributes; "" = default.
	Namespace string
	// TaskQueue overrides the queue that belongs to the store.
	TaskQueue string
	// RetryFor bounds the retries of a failing model call; 0 = 15 minutes.
	RetryFor time.Duration
	// Heartbeat is the heartbeat timeout of model calls and tools: how soon a
	// dead worker is noticed. 0 = 10 s, which spares a shared server; 2 s suits
	// an embedded one.
	Heartbeat time.Duration
	// MaxTurns bounds the activities a worker runs at once; 0 = 200.
	MaxTurns int
	// MaxEvents makes runs continue as new earlier; 0 = the default. For tests.
	MaxEvents int
	// WaitInRun makes runs that wait park earlier; 0 = the default. For tests.
	WaitInRun time.Duration
	// KeeperAge is how long something may look wrong before the worker mends it, such
	// as an open turn without a run; 0 = 10 s. For tests.
	KeeperAge time.Duration
	// DrainTime is how long tools and model calls that run may go on when Run's context
	// has ended; 0 = not at all. What has not ended then is handed over.
	DrainTime time.Duration
	// Disks are folders that this worker writes to: it takes no tasks while the disk of
	// one is full.
	Disks []string
	// Beside, if set, starts what the tools need, such as the sessions of MCP
	// servers: before the first task is taken. The stop it returns is called
	// when the last one has ended.
	Beside func(ctx context.Context) (stop func())
	Log    *slog.Logger

	// TracerProvider and MeterProvider get what the worker does, see
	// docs/telemetry.md; nil = there are none. Traces need ids that TraceIDs makes. Whoever
	// made the providers shuts them down, after Run has returned.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// ModelProvider is gen_ai.provider.name of the calls whose agent names no
	// provider; "" = "openai".
	ModelProvider string
	// TraceContent adds messages, arguments and results to spans.
	TraceContent bool
}

// Worker runs turns: their workflows, their activities, and the keeper.
type Worker struct {
	o         WorkerOptions
	acts      *activities.Activities
	server    *serve.Server
	health    *health.Monitor
	handOver  context.CancelFunc
	telemetry *telemetry.Telemetry
}

// NewWorker checks the options and makes a worker. A wrong option is an error
// here, not in mid-turn.
func NewWorker(ctx context.Context, o WorkerOptions) (*Worker, error) {
	if o.Agents == nil {
		o.Agents, _ = NewAgents("", "")
	}
	own, err := template.With(o.Agents, o.OwnAgents)
	if err != nil {
		return nil, err
	}
	o.Agents = own
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.TaskQueue = cmp.Or(o.TaskQueue, agent.TaskQueue(o.Store.ID()))
	o.Heartbeat = cmp.Or(o.Heartbeat, activities.DefaultHeartbeat)
	o.MaxTurns = cmp.Or(o.MaxTurns, 200)
	o.Namespace = cmp.Or(o.Namespace, client.DefaultNamespace)
	workspace, err := filepath.Abs(o.Workspace)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "workspace %q", o.Workspace)
	}
	policy := agent.DefaultDelegationPolicy()
	if o.Policy != nil {
		policy = *o.Policy
	}
	w := &Worker{o: o}
	if w.telemetry, err = telemetry.New(telemetry.Options{
		Tracers: o.TracerProvider, Meters: o.MeterProvider, Store: o.Store, Provider: o.ModelProvider, Content: o.TraceContent,
	}); err != nil {
		return nil, err
	}
	if w.telemetry.Foreign() {
		o.Log.Warn("turns are no parents of what happens in them: the tracer provider was not made with spool.TraceIDs")
	}
	model := &health.Model{Model: o.Model}
	cut, handOver := context.WithCancel(context.WithoutCancel(ctx))
	w.handOver = handOver
	w.acts = &activities.Activities{
		Store: o.Store, Model: model, Tools: o.Tools, Catalog: o.Agents, Policy: policy, Temporal: o.Temporal,
		Models: o.Models, Fallbacks: o.Fallbacks, MaxSteps: o.MaxSteps, DefaultModel: o.DefaultModel, RetryFor: o.RetryFor,
		Workspace: workspace, Home: o.Home, Private: o.Private, Files: o.Files, TaskQueue: o.TaskQueue,
		Heartbeat: o.Heartbeat, MaxEvents: o.MaxEvents, WaitInRun: o.WaitInRun,
		SearchAttributes: serve.SearchAttributes(ctx, o.Temporal, o.Namespace, o.Log), Telemetry: w.telemetry, Cut: cut.Done(),
	}
	w.health = health.New(health.Store(o.Store), health.Temporal(o.Temporal), health.Disk(o.Disks...), model.Part(),
		health.Taking(func() bool { return w.server.Taking() }))
	options := worker.Options{
		MaxConcurrentActivityExecutionSize: o.MaxTurns,
		// After a worker's death its workflows' next tasks wait this long in its
		// own queue before any other worker gets them.
		StickyScheduleToStartTimeout:     time.Second,
		MaxHeartbeatThrottleInterval:     min(o.Heartbeat/8, 2*time.Second),
		DefaultHeartbeatThrottleInterval: min(o.Heartbeat/8, 2*time.Second),
		Interceptors:                     w.telemetry.Interceptor(),
	}
	kept := &keeper.Keeper{
		Store: o.Store, Client: o.Temporal, Log: o.Log, Namespace: o.Namespace,
		Nudger: nudge.Nudger{Client: o.Temporal, StoreID: o.Store.ID(), TaskQueue: o.TaskQueue}, Age: o.KeeperAge,
		Closed: func(r memory.CloseRequest, c memory.Closed) {
			w.telemetry.TurnClosed(r.ThreadID, r.TurnID, r.Outcome, c)
		},
	}
	options.Interceptors = append(options.Interceptors, kept)
	w.server = &serve.Server{
		Client: o.Temporal, TaskQueue: o.TaskQueue, Options: options, Log: o.Log, Cut: cut, Beside: kept.Run,
		Register: func(r worker.Registry) { workflows.Register(r); w.acts.Register(r) },
		Missing:  func() (part, problem string) { return w.health.Look().Missing(health.StorePart, health.DiskPart) },
	}
	return w, nil
}

// check says which option is missing.
func (o WorkerOptions) check() error {
	switch {
	case o.Store == nil:
		return agent.Errorf(agent.CodeInvalid, "a worker needs a store")
	case o.Temporal == nil:
		return agent.Errorf(agent.CodeInvalid, "a worker needs a Temporal client")
	case o.Model == nil:
		return agent.Errorf(agent.CodeInvalid, "a worker needs a model")
	case o.Tools == nil:
		return agent.Errorf(agent.CodeInvalid, "a worker needs a tool registry; an empty one will do")
	}
	if _, ok := o.Agents.Get(activities.DefaultAgent); !ok {
		return agent.Errorf(agent.CodeInvalid, "the catalog of agents has no %q, which answers on main threads", activities.DefaultAgent)
	}
	return nil
}

// Health answers /livez, /readyz and, unless metrics is nil, /metrics.
func (w *Worker) Health(metrics http.Handler) http.Handler { return health.Handler(w.health, metrics) }

// Run works until ctx ends, lets what is under way end within DrainTime, hands over
// the rest and returns. While the store cannot be reached, or a disk is full, it takes
// no work. It ends with an error when the store was replaced under it.
func (w *Worker) Run(ctx context.Context) error {
	defer w.telemetry.Close()
	defer w.handOver()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.o.DrainTime, w.handOver) })()
	if w.o.Beside != nil {
		defer w.o.Beside(ctx)()
	}
	err := w.server.Run(ctx)
	if coded := (*agent.Error)(nil); err == nil || errors.As(err, &coded) {
		return err
	}
	return runs.Refused(err, "start worker on task queue %s", w.o.TaskQueue)
}

// HandOver ends what is left of DrainTime.
func (w *Worker) HandOver() { w.handOver() }

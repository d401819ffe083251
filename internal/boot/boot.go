// Package boot makes a worker of settings: for the worker program, and for
// programs that run a worker in their own process because their store serves
// only one.
package boot

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/mcp"
	"github.com/spool-agents/spool/internal/telemetry/export"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/memory"
)

// OpenStore opens the store of the settings.
func OpenStore(ctx context.Context, cfg config.Config, log *slog.Logger) (memory.ConversationMemoryStore, error) {
	return spool.OpenStoreWith(ctx, cfg.Store, spool.StoreOptions{
		UserID: cfg.User, Profile: cfg.Profile, Report: func(err error) { log.Warn("store", "report", err.Error()) },
	})
}

// TemplateWarning is the log's message for what is wrong with an agent file.
const TemplateWarning = "agent file"

// Folders are where the agents of a worker are looked for.
func Folders(cfg config.Config) template.Folders {
	return template.Folders{Project: cfg.Workspace, Home: cfg.Home, MaxSteps: cfg.MaxSteps}
}

// Options are those of a worker on a store, all but its Temporal client.
func Options(cfg config.Config, store memory.ConversationMemoryStore, env func(string) string, log *slog.Logger) (spool.WorkerOptions, error) {
	known, err := LoadModels(cfg, env)
	if err != nil {
		return spool.WorkerOptions{}, err
	}
	if at, err := known.Table.Route(cfg.Model, ""); err == nil && at.Provider == "" && cfg.Demo() && !cfg.DemoModel {
		return spool.WorkerOptions{}, agent.Errorf(agent.CodeInvalid, "no model is configured: "+ToDoWithoutModel)
	}
	for _, p := range known.Problems() {
		log.Warn("models", "where", p.Where, "problem", p.What, "todo", p.ToDo)
	}
	catalog := template.NewLive(Folders(cfg), known.Routable, func(w template.Warning) { log.Warn(TemplateWarning, "warning", w.String()) })
	o := spool.WorkerOptions{
		Store: store, Agents: catalog, DefaultModel: cfg.Model, Namespace: cmp.Or(cfg.Temporal.Namespace, client.DefaultNamespace),
		Workspace: cfg.Workspace, Home: cfg.Home, Private: cfg.Private, Files: filepath.Join(cfg.Home, "files"), Policy: &cfg.Delegation, MaxSteps: cfg.MaxSteps,
		TaskQueue: cfg.TaskQueue, RetryFor: cfg.RetryFor, MaxTurns: cfg.MaxTurnsPerWorker, Log: log,
		DrainTime: cfg.DrainTime, Disks: disks(cfg),
	}
	o.Tools, o.Beside, err = mcp.Tools(mcp.Options{Workspace: cfg.Workspace, Home: cfg.Home, Env: env, Log: log},
		tool.Builtin(tool.Options{TavilyKey: cfg.TavilyKey.Reveal(), AllowPrivate: cfg.WebFetchPrivate, ShellMemory: cfg.ShellMemory})...)
	if err != nil {
		return o, err
	}
	o.Fallbacks = cfg.FallbackModels
	o.Models = known.Table
	if o.Model, err = known.Client(store, log); err != nil {
		return o, err
	}
	if cfg.Demo() {
		o.ModelProvider = "spool.script"
	}
	worker.SetBinaryChecksum(buildID())
	return o, tune(&o, env)
}

// disks are the folders of this machine that a worker writes to.
func disks(cfg config.Config) []string {
	out := []string{cfg.Home}
	if scheme, path, _ := strings.Cut(cfg.Store, ":"); scheme == "sqlite" && filepath.Dir(path) != cfg.Home {
		out = append(out, filepath.Dir(path))
	}
	return out
}

// Tell makes a worker tell telemetry what it does.
func Tell(o *spool.WorkerOptions, told *export.Export) {
	o.TracerProvider, o.MeterProvider, o.TraceContent = told.Tracers, told.Meters, told.Content
}

// tune reads the settings that belong to a supervisor rather than to people.
func tune(o *spool.WorkerOptions, env func(string) string) error {
	var err error
	if o.Heartbeat, err = interval(env, "SPOOL_HEARTBEAT_TIMEOUT", o.Heartbeat, 500*time.Millisecond, "2s"); err != nil {
		return err
	}
	if v := env("SPOOL_MAX_EVENTS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 10 {
			return agent.Errorf(agent.CodeInvalid, "SPOOL_MAX_EVENTS is %q: use a number of at least 10", v)
		}
		o.MaxEvents = n
	}
	if o.WaitInRun, err = interval(env, "SPOOL_WAIT_IN_RUN", o.WaitInRun, 100*time.Millisecond, "60s"); err != nil {
		return err
	}
	o.KeeperAge, err = interval(env, "SPOOL_KEEPER_AGE", o.KeeperAge, time.Second, "10s")
	return err
}

// interval is a setting of at least so much, or otherwise if it is not set.
func interval(env func(string) string, name string, otherwise, least time.Duration, such string) (time.Duration, error) {
	v := env(name)
	if v == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < least {
		return otherwise, agent.Errorf(agent.CodeInvalid, "%s is %q: use a duration of at least %s, such as %s", name, v, least, such)
	}
	return d, nil
}

// buildID names this build in histories, instead of the 32 digits of the SDK's
// checksum, which stand in four events of every step.
func buildID() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return info.Main.Version
}

// Dial waits for Temporal: a worker that is started first must not give up.
func Dial(ctx context.Context, cfg config.Config, log *slog.Logger) (client.Client, error) {
	o := cfg.Temporal
	// Requests are small, as they carry references only: compressing them costs
	// more time than it saves, on both sides.
	o.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	// A server that vanished is noticed after 15 s, not after the SDK's 45. Servers refuse
	// to be asked more often than every 10 s.
	o.ConnectionOptions.KeepAliveTime, o.ConnectionOptions.KeepAliveTimeout = 10*time.Second, 5*time.Second
	o.Logger = sdklog.NewStructuredLogger(quiet(log))
	cfg.Encryption.ApplyToWorker(&o)
	for delay := 250 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		c, err := client.DialContext(ctx, o)
		if err == nil {
			return c, nil
		}
		log.Warn("waiting for Temporal", "address", o.HostPort, "error", err)
		select {
		case <-ctx.Done():
			return nil, agent.Wrap(err, agent.CodeUnavailable, "no Temporal at %s", o.HostPort)
		case <-time.After(delay):
		}
	}
}

// quiet keeps the SDK's routine messages out of the log: only warnings and errors,
// and of those not that an activity ended because its turn was cancelled.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(levelled{log.Handler()}) }

type levelled struct{ slog.Handler }

func (h levelled) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

// Handle passes a record on, a cancelled activity as a detail.
func (h levelled) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "Activity error." && tellsOfCancel(r) {
		if r.Level = slog.LevelDebug; !h.Handler.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelled{h.Handler.WithAttrs(attrs)}
}

func (h levelled) WithGroup(name string) slog.Handler { return levelled{h.Handler.WithGroup(name)} }

func tellsOfCancel(r slog.Record) (cancelled bool) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "Error" {
			return true
		}
		err, ok := a.Value.Any().(error)
		cancelled = ok && (errors.Is(err, context.Canceled) || temporal.IsCanceledError(err)) || strings.Contains(a.Value.String(), context.Canceled.Error())
		return false
	})
	return cancelled
}

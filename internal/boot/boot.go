// Package boot makes a worker of settings: for the worker program, and for
// programs that run a worker in their own process because their store serves
// only one.
package boot

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/httplog"
	"github.com/spool-agents/spool/internal/llm"
	"github.com/spool-agents/spool/internal/llm/openai"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/mcp"
	"github.com/spool-agents/spool/internal/models"
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

// Options are those of a worker on a store, all but its Temporal client.
func Options(cfg config.Config, store memory.ConversationMemoryStore, env func(string) string, log *slog.Logger) (spool.WorkerOptions, error) {
	catalog := template.NewLive(cfg.Workspace, cfg.Home, func(w template.Warning) { log.Warn("agent template", "warning", w.String()) })
	o := spool.WorkerOptions{
		Store: store, Agents: catalog, DefaultModel: cfg.Model, Namespace: cmp.Or(cfg.Temporal.Namespace, client.DefaultNamespace),
		Workspace: cfg.Workspace, Images: filepath.Join(cfg.Home, "images"), Files: filepath.Join(cfg.Home, "files"), Policy: &cfg.Delegation, MaxSteps: cfg.MaxSteps,
		TaskQueue: cfg.TaskQueue, RetryFor: cfg.RetryFor, MaxTurns: cfg.MaxTurnsPerWorker, Log: log,
	}
	var servers *mcp.Manager
	tools, err := tool.NewLive(func(name string) (agent.Tool, bool) { return servers.Pending(name) },
		tool.Builtin(tool.Options{TavilyKey: cfg.TavilyKey.Reveal(), AllowPrivate: cfg.WebFetchPrivate, ShellMemory: cfg.ShellMemory})...)
	if err != nil {
		return o, err
	}
	servers = mcp.New(mcp.Options{Workspace: cfg.Workspace, Home: cfg.Home, Env: env, Log: log}, func(more []agent.Tool) error { return tools.Set(more...) })
	o.Tools, o.Beside = tools, servers.Start
	o.Fallbacks = cfg.FallbackModels
	state := models.Row{Window: cfg.ContextWindow}
	if p := cfg.Price; p != (agent.Price{}) {
		state.Price = &models.Price{Input: p.Input, Output: p.Output}
	} else if cfg.Demo() {
		state.Price = &models.Price{} // the scripted model costs nothing
	}
	table, err := models.Load(cfg.Home, state)
	if err != nil {
		return o, err
	}
	o.Models = table
	if o.Model, err = newModel(cfg, table.Providers, store, env, log); err != nil {
		return o, err
	}
	if cfg.Demo() {
		o.ModelProvider = "spool.script"
	}
	worker.SetBinaryChecksum(buildID())
	return o, tune(&o, env)
}

// Tell makes a worker tell telemetry what it does.
func Tell(o *spool.WorkerOptions, told *export.Export) {
	o.TracerProvider, o.MeterProvider, o.TraceContent = told.Tracers, told.Meters, told.Content
}

// tune reads the settings that belong to a supervisor rather than to people.
func tune(o *spool.WorkerOptions, env func(string) string) error {
	if v := env("SPOOL_HEARTBEAT_TIMEOUT"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < 500*time.Millisecond {
			return agent.Errorf(agent.CodeInvalid, "SPOOL_HEARTBEAT_TIMEOUT is %q: use a duration of at least 500ms, such as 2s", v)
		}
		o.Heartbeat = d
	}
	if v := env("SPOOL_MAX_EVENTS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 10 {
			return agent.Errorf(agent.CodeInvalid, "SPOOL_MAX_EVENTS is %q: use a number of at least 10", v)
		}
		o.MaxEvents = n
	}
	if v := env("SPOOL_WAIT_IN_RUN"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < 100*time.Millisecond {
			return agent.Errorf(agent.CodeInvalid, "SPOOL_WAIT_IN_RUN is %q: use a duration of at least 100ms, such as 60s", v)
		}
		o.WaitInRun = d
	}
	return nil
}

// Model is the model of a worker with these settings, for asking whether it
// answers. It logs nothing.
func Model(cfg config.Config) (agent.Model, error) {
	cfg.HTTPLog = false
	table, err := models.Load(cfg.Home, models.Row{})
	if err != nil {
		return nil, err
	}
	return newModel(cfg, table.Providers, nil, os.Getenv, slog.New(slog.DiscardHandler))
}

// newModel makes the client of the settings' provider and, where the user's table of
// models names others, of those. Each has a limiter of its own: one per provider and key.
func newModel(cfg config.Config, others map[string]models.Provider, store memory.ConversationMemoryStore, env func(string) string, log *slog.Logger) (agent.Model, error) {
	secrets := []string{cfg.OpenAIKey.Reveal(), cfg.TavilyKey.Reveal()}
	for _, p := range others {
		secrets = append(secrets, env(p.APIKeyEnv))
	}
	client := func(c openai.Config) (agent.Model, error) {
		c.IdleTimeout = cfg.IdleTimeout
		if !cfg.HTTPLog {
			model, err := openai.New(c)
			if err != nil {
				return nil, err
			}
			return llm.Limited(model), nil
		}
		wire := &httplog.Log{
			Home: cfg.Home, Threads: store, Secrets: secrets,
			Report: func(err error) { log.Warn("http log", "error", err) },
		}
		c.Transport = wire.Transport
		model, err := openai.New(c)
		if err != nil {
			return nil, err
		}
		return wire.Model(llm.Limited(model)), nil
	}
	router := llm.Router{Default: script.Model{}, Providers: map[string]agent.Model{}}
	var err error
	if !cfg.Demo() {
		router.Default, err = client(openai.Config{BaseURL: cfg.OpenAIBaseURL, APIKey: cfg.OpenAIKey.Reveal(), Model: cfg.Model})
	}
	if err != nil || len(others) == 0 {
		return router.Default, err
	}
	for name, p := range others {
		if p.APIKeyEnv != "" && env(p.APIKeyEnv) == "" {
			log.Warn("provider without key", "provider", name, "missing", p.APIKeyEnv)
		}
		if router.Providers[name], err = client(openai.Config{BaseURL: p.BaseURL, APIKey: env(p.APIKeyEnv)}); err != nil {
			return nil, err
		}
	}
	return router, nil
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

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/llm"
	"github.com/spool-agents/spool/internal/llm/openai"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/tool"
)

// Exit codes, as in the starter's.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 5
)

func run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "replay" {
		return replay(args[1:], stdout, stderr)
	}
	// Before anything else: an early SIGTERM must end the program cleanly.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	fs := flag.NewFlagSet("worker", flag.ContinueOnError)
	fs.SetOutput(stderr)
	home := fs.String("home", "", "Spool's folder (SPOOL_HOME, default ~/.spool)")
	parent := fs.Bool("parent-pipe", false, "end when standard input ends: used by a supervisor")
	verbose := fs.Bool("verbose", false, "log every detail")
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: worker [flags]\n       worker replay FILE...   replay histories (of `starter history`) on this build\n\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitDone
		}
		return exitUsage
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "worker: unexpected argument %q; see worker --help\n", fs.Arg(0))
		return exitUsage
	}
	if *parent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))

	flags := map[string]string{}
	if *home != "" {
		flags[config.Home] = *home
	}
	cfg, err := config.Load(config.Options{Flags: flags, Env: env})
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return exitUsage
	}
	return exit(stderr, serve(ctx, cfg, env, log))
}

func exit(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(stderr, "worker:", err)
	switch agent.CodeOf(err) {
	case agent.CodeInvalid:
		return exitUsage
	case agent.CodeUnavailable:
		return exitUnavailable
	}
	return exitFailed
}

func serve(ctx context.Context, cfg config.Config, env func(string) string, log *slog.Logger) error {
	store, err := spool.OpenStore(ctx, cfg.Store)
	if err != nil {
		return err
	}
	defer store.Close()
	catalog, warnings := template.Load(cfg.Workspace, cfg.Home)
	for _, w := range warnings {
		log.Warn("agent template", "warning", w.String())
	}
	tools, err := tool.New(tool.Builtin(tool.Options{TavilyKey: cfg.TavilyKey.Reveal(), AllowPrivate: cfg.WebFetchPrivate})...)
	if err != nil {
		return err
	}
	model, err := newModel(cfg)
	if err != nil {
		return err
	}
	o := spool.WorkerOptions{
		Store: store, Model: model, Tools: tools, Agents: catalog, DefaultModel: cfg.Model, Namespace: cfg.Temporal.Namespace,
		Workspace: cfg.Workspace, Policy: &cfg.Delegation, Price: cfg.Price, MaxSteps: cfg.MaxSteps,
		TaskQueue: cfg.TaskQueue, RetryFor: cfg.RetryFor, MaxTurns: cfg.MaxTurnsPerWorker, Log: log,
	}
	if err := tune(&o, env); err != nil {
		return err
	}
	if cfg.Demo() {
		log.Warn("no model is configured: the scripted demo model answers. Set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) for this worker")
	}
	if o.Temporal, err = dial(ctx, cfg, log); err != nil {
		return err
	}
	defer o.Temporal.Close()
	w, err := spool.NewWorker(ctx, o)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// tune reads the two settings that belong to a supervisor rather than to people.
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
	return nil
}

func newModel(cfg config.Config) (agent.Model, error) {
	if cfg.Demo() {
		return script.Model{}, nil
	}
	model, err := openai.New(openai.Config{BaseURL: cfg.OpenAIBaseURL, APIKey: cfg.OpenAIKey.Reveal(), Model: cfg.Model, IdleTimeout: cfg.IdleTimeout})
	if err != nil {
		return nil, err
	}
	return llm.Limited(model), nil
}

// dial waits for Temporal: a worker that is started first must not give up.
func dial(ctx context.Context, cfg config.Config, log *slog.Logger) (client.Client, error) {
	o := cfg.Temporal
	o.Logger = sdklog.NewStructuredLogger(quiet(log))
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

// quiet keeps the SDK's routine messages out of the log: only warnings and errors.
func quiet(log *slog.Logger) *slog.Logger {
	return slog.New(levelled{log.Handler()})
}

type levelled struct{ slog.Handler }

func (h levelled) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

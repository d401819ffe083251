package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/telemetry/export"
)

func run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "replay" {
		return replayFiles(args[1:], env, stdout, stderr)
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
		fmt.Fprintf(stderr, "usage: worker [flags]\n       worker replay PATH...   replay histories (files of `starter history`, or folders) on this build\n\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exit.Done
		}
		return exit.Usage
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "worker: unexpected argument %q; see worker --help\n", fs.Arg(0))
		return exit.Usage
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
		return exit.Usage
	}
	if !*parent { // else the parent has said it
		for _, text := range cfg.Ignored {
			log.Warn(text)
		}
	}
	if err = serve(ctx, cfg, env, log); err != nil {
		fmt.Fprintln(stderr, "worker:", err)
	}
	return exit.Code(err)
}

func serve(ctx context.Context, cfg config.Config, env func(string) string, log *slog.Logger) error {
	if cfg.OneProcess() {
		return agent.Errorf(agent.CodeInvalid, "the store %s serves one process only, the one that sends: starter chat, send and dev run a worker themselves on it; for workers of their own use sqlite:PATH or postgres://USER@HOST/DATABASE", cfg.Store)
	}
	telemetry, err := export.Start(ctx, "spool-worker", true, log)
	if err != nil {
		return err
	}
	defer telemetry.Close()
	store, err := boot.OpenStore(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer store.Close()
	o, err := boot.Options(cfg, store, env, log)
	if err != nil {
		return err
	}
	if cfg.Demo() {
		log.Warn("no model is configured: the scripted demo model answers. Set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) for this worker")
	}
	boot.Tell(&o, telemetry)
	cfg.Temporal.MetricsHandler = telemetry.Temporal()
	if o.Temporal, err = boot.Dial(ctx, cfg, log); err != nil {
		return err
	}
	defer o.Temporal.Close()
	w, err := spool.NewWorker(ctx, o)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

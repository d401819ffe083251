// Package work is the program worker: it serves the task queue of its store on a
// Temporal server.
package work

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/health"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/telemetry/export"
)

// Main is the whole program; it does not return.
func Main() {
	boot.HideEnvironment() // it runs the commands of agents
	os.Exit(run(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "replay" {
		return replayFiles(args[1:], env, stdout, stderr)
	}
	// Before anything else: an early SIGTERM must end the program cleanly.
	ctx, now, stop := stopping(ctx)
	defer stop()

	fs := flag.NewFlagSet("worker", flag.ContinueOnError)
	fs.SetOutput(stderr)
	home := fs.String("home", "", "Spool's folder (SPOOL_HOME, default ~/.spool)")
	parent := fs.Bool("parent-pipe", false, "end when standard input ends: used by a supervisor")
	demo := fs.Bool("demo-model", false, "let the scripted demo model answer where no model is configured (SPOOL_DEMO_MODEL)")
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
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			stop()
		}()
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))

	p := printer.Printer{Err: stderr}
	flags := map[string]string{}
	if *home != "" {
		flags[config.Home] = *home
	}
	if *demo {
		flags[config.DemoModel] = "true"
	}
	cfg, err := config.Load(config.Options{Flags: flags, Env: env})
	if err != nil {
		p.Progress("worker: %v", err)
		return exit.Usage
	}
	if !*parent { // else the parent has said it
		for _, text := range cfg.Ignored {
			log.Warn(text)
		}
	}
	if err = serve(ctx, now, cfg, env, log); err != nil {
		p.Progress("worker: %v", err)
	}
	return exit.Code(err)
}

// stopping makes two contexts: the first signal ends soft, the second one hard as well.
// end ends both.
func stopping(ctx context.Context) (soft, hard context.Context, end func()) {
	hard, endHard := context.WithCancel(ctx)
	soft, endSoft := context.WithCancel(hard)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for _, end := range []func(){endSoft, endHard} {
			select {
			case <-signals:
				end()
			case <-hard.Done():
				return
			}
		}
	}()
	return soft, hard, endHard
}

// serve works until ctx ends, and does not drain once now has ended.
func serve(ctx, now context.Context, cfg config.Config, env func(string) string, log *slog.Logger) error {
	if cfg.OneProcess() {
		return agent.Errorf(agent.CodeInvalid, "the store %s serves one process only, the one that sends: starter chat, send and dev run a worker themselves on it; for workers of their own use sqlite:PATH or postgres://USER@HOST/DATABASE", cfg.Store)
	}
	telemetry, err := export.Start(ctx, export.Options{Service: "spool-worker", Lasting: true, Scraped: cfg.HealthAddress != ""}, log)
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
	if cfg.Demo() && cfg.DemoModel {
		log.Warn("the scripted demo model answers, as no model is configured. Set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) for this worker")
	}
	boot.Tell(&o, telemetry)
	cfg.Temporal.MetricsHandler = telemetry.Temporal()
	cfg.Temporal.Identity = boot.Identity(cfg, env)
	told := health.NotConnected()
	if cfg.HealthAddress != "" {
		go health.Serve(now, cfg.HealthAddress, told, log)
	}
	if o.Temporal, err = boot.Dial(ctx, cfg, log); err != nil {
		return err
	}
	defer o.Temporal.Close()
	w, err := spool.NewWorker(ctx, o)
	if err != nil {
		return err
	}
	defer context.AfterFunc(now, w.HandOver)()
	told.Use(w.Health(telemetry.Scrape))
	return w.Run(ctx)
}

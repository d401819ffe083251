package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/temporal"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// stopTimeout is how long a clean stop may take; after it the process just
// ends, which costs no data.
const stopTimeout = 5 * time.Second

// run is the program: it returns the exit code when the server has stopped.
func run(args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, getenv, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "devserver: %v\nSee devserver --help.\n", err)
		return exitUsage
	}
	ctx, stop := stopSignals(o, stdin)
	defer stop()
	if err := serve(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "devserver: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// stopSignals returns a context that ends with the first signal or the parent.
// It comes before the server, so that no signal finds the default handler. A
// second signal ends the process at once.
func stopSignals(o options, stdin io.Reader) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailed)
	}()
	if o.parentPipe {
		go func() {
			_, _ = io.Copy(io.Discard, stdin) // an error means as much as the end
			cancel()
		}()
	}
	return ctx, func() { signal.Stop(signals); cancel() }
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, o options, stdout, stderr io.Writer) error {
	log := newLogger(o, stderr)
	store, err := openStore(o, log)
	if err != nil {
		return err
	}
	defer store.close()
	p, err := pickPorts(o, stderr)
	if err != nil {
		return err
	}
	server, err := newServer(o, p, store, log)
	if err != nil {
		return err
	}
	ui := startUI(o, p)
	// Start returns when the server's own workers run, which takes twice as
	// long as until it serves; it cannot be interrupted.
	started := make(chan struct{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		err := server.Start()
		if err != nil {
			cancel(fmt.Errorf("start the Temporal server on %s: %w", store.describe(), err))
		}
		close(started)
	}()
	ready := readiness{Temporal: address(p.frontend), Namespace: o.namespace, DB: store.describe(), PID: os.Getpid()}
	if ui != nil {
		ready.UI = "http://" + address(p.ui)
	}
	if err := awaitReady(ctx, ready); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() == nil {
		if err := json.NewEncoder(stdout).Encode(ready); err != nil {
			return fmt.Errorf("print the ready line: %w", err)
		}
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	log.quiet()
	stopAll(server, ui, started, log)
	return nil
}

// stopAll stops the server in an orderly way if that is done within stopTimeout.
// Otherwise, and while it is still starting, it leaves that to the end of the
// process, which the store is made to survive.
func stopAll(server temporal.Server, ui *uiserver.Server, started <-chan struct{}, log logger) {
	select {
	case <-started:
	default:
		return
	}
	stopped := make(chan error, 1)
	go func() {
		if ui != nil {
			ui.Stop()
		}
		stopped <- server.Stop()
	}()
	select {
	case err := <-stopped:
		if err != nil {
			log.Warn("The Temporal server stopped with an error", tag.Error(err))
		}
	case <-time.After(stopTimeout):
		log.Warn("The Temporal server did not stop in time and is cut off", tag.Duration("timeout", stopTimeout))
	}
}

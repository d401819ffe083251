package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/workflows"
)

// readable says why a file cannot be read.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = f.Read(make([]byte, 1)) // fails for a folder
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s is empty", path)
	}
	return errors.Join(err, f.Close())
}

// replay runs recorded histories through this build's workflow code, with the
// settings' keys for what is encrypted in them.
func replay(files []string, env func(string) string, stdout, stderr io.Writer) int {
	if len(files) == 0 {
		fmt.Fprintln(stderr, "worker: replay needs at least one history file; `starter history THREAD > FILE` writes one")
		return exit.Usage
	}
	cfg, err := config.Load(config.Options{Env: env})
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return exit.Usage
	}
	var o client.Options
	cfg.Encryption.ApplyToWorker(&o)
	failed := exit.Done
	for _, f := range files {
		if err := readable(f); err != nil {
			fmt.Fprintf(stderr, "worker: cannot read the history: %v\n", err)
			failed = exit.Failed
			continue
		}
		r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: o.DataConverter, FailureConverter: o.FailureConverter})
		if err != nil {
			fmt.Fprintln(stderr, "worker:", err)
			return exit.Failed
		}
		workflows.Register(r)
		if err := r.ReplayWorkflowHistoryFromJSONFile(nil, f); err != nil {
			fmt.Fprintf(stderr, "%s: this build cannot continue this run: %v\n", f, err)
			failed = exit.Failed
			continue
		}
		fmt.Fprintf(stdout, "%s: ok\n", f)
	}
	return failed
}

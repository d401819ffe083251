package main

import (
	"fmt"
	"io"

	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool/workflows"
)

// replay runs recorded histories through this build's workflow code.
func replay(files []string, stdout, stderr io.Writer) int {
	if len(files) == 0 {
		fmt.Fprintln(stderr, "worker: replay needs at least one history file; `starter history THREAD > FILE` writes one")
		return exitUsage
	}
	failed := exitDone
	for _, f := range files {
		r := worker.NewWorkflowReplayer()
		workflows.Register(r)
		if err := r.ReplayWorkflowHistoryFromJSONFile(nil, f); err != nil {
			fmt.Fprintf(stderr, "%s: this build cannot continue this run: %v\n", f, err)
			failed = exitFailed
			continue
		}
		fmt.Fprintf(stdout, "%s: ok\n", f)
	}
	return failed
}

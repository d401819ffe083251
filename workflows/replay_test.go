package workflows_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool/internal/encryption"
	"github.com/spool-agents/spool/workflows"
)

// Row D4: histories recorded from real servers replay on this code.
func TestFault_D4_RecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no recorded histories: see TestHistoriesReplay in internal/e2e for how they are made")
	text, err := os.ReadFile("testdata/keys")
	require.NoError(t, err)
	keys, err := encryption.Load(string(text))
	require.NoError(t, err)
	var o client.Options
	keys.ApplyToWorker(&o)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: o.DataConverter, FailureConverter: o.FailureConverter})
			require.NoError(t, err)
			workflows.Register(r)
			require.NoError(t, r.ReplayWorkflowHistoryFromJSONFile(nil, f),
				"runs like this one may be open somewhere: put the change behind workflow.GetVersion; do not record the history anew")
		})
	}
}

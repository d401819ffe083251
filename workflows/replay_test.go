package workflows_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool/workflows"
)

// Row D4: histories recorded from real servers replay on this code.
func TestFault_D4_RecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no recorded histories: see TestHistoriesReplay in internal/e2e for how they are made")
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			r := worker.NewWorkflowReplayer()
			workflows.Register(r)
			require.NoError(t, r.ReplayWorkflowHistoryFromJSONFile(nil, f),
				"runs like this one may be open somewhere: put the change behind workflow.GetVersion; do not record the history anew")
		})
	}
}

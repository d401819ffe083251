package work

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/exit"
)

func TestReplaySaysWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.json")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	other, without := filepath.Join(dir, "README.md"), filepath.Join(dir, "without")
	require.NoError(t, os.WriteFile(other, []byte("# No history"), 0o600))
	require.NoError(t, os.WriteFile(without, []byte("{}"), 0o600))
	for _, path := range []string{filepath.Join(dir, "missing.json"), dir, empty, other, without} {
		var out, errout bytes.Buffer
		assert.Equal(t, exit.Failed, replayFiles([]string{path}, func(string) string { return "" }, &out, &errout))
		assert.Contains(t, errout.String(), "no history")
		assert.Contains(t, errout.String(), path)
		assert.NotContains(t, errout.String(), "cannot continue")
	}
}

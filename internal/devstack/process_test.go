package devstack

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The last words of a process that was killed are not why it ended.
func TestHowAProcessEnded(t *testing.T) {
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	for script, want := range map[string]string{
		"echo no such thing >&2; exit 3": "exit status 3: no such thing",
		"echo warned >&2; kill -9 $$":    "signal: killed",
		"echo level=INFO ready >&2":      "ended",
	} {
		p, err := start(command{name: "part", path: sh, args: []string{"-c", script}, log: io.Discard})
		require.NoError(t, err)
		<-p.done
		assert.Equal(t, want, p.ending())
	}
}

// A program of a cloned folder is not run for one of this project's.
func TestProgramsOfTheWorkingDirectoryAreNotRun(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "temporal"), []byte("#!/bin/sh\n"), 0o700))
	t.Chdir(dir)
	require.Equal(t, []string{"/opt/spool/bin"}, besides("/opt/spool/bin/starter"))
	require.Empty(t, onPath("temporal", "bin:./bin:"))
	require.NotEmpty(t, onPath("temporal", filepath.Join(dir, "bin")))
}

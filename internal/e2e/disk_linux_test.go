//go:build mount

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// A worker whose disk is full leaves the work to others until there is room.
func TestAWorkerWithAFullDiskLeavesTheWorkToOthers(t *testing.T) {
	s := stack(t)
	home := t.TempDir()
	require.NoError(t, syscall.Mount("spool", home, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { _ = syscall.Unmount(home, syscall.MNT_DETACH) })
	full := s.StartWorker("SPOOL_HOME="+home, anyPort)
	require.Equal(t, "before", s.Ask("s1", "script: say before").Response)

	fill := filepath.Join(home, "fill")
	require.ErrorIs(t, os.WriteFile(fill, bytes.Repeat([]byte("x"), 300<<10), 0o600), syscall.ENOSPC)
	tt.Eventually(t, "it takes no tasks", func() bool { return strings.Contains(full.Log(), "part=disk") })
	_, r := readiness(t, full)
	require.False(t, r.Parts["disk"].OK, r)
	other := s.StartWorker()
	require.Equal(t, "meanwhile", s.Ask("s1", "script: say meanwhile").Response)

	other.Kill()
	require.NoError(t, os.Remove(fill))
	require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
}

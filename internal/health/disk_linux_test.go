//go:build mount

package health

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A full disk is missing until there is room again. A folder that is not there, or that
// cannot be written to, is not.
func TestAFullDiskIsMissing(t *testing.T) {
	dir := t.TempDir()
	require.True(t, New(Disk(dir, filepath.Join(dir, "nowhere"), "/proc")).Look().Ready)
	require.Empty(t, names(t, dir), "nothing is left behind")
	require.NoError(t, syscall.Mount("spool", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	fill := filepath.Join(dir, "fill")
	require.NoError(t, os.WriteFile(fill, bytes.Repeat([]byte("x"), 64<<10), 0o600))
	r := New(Disk(dir)).Look()
	require.False(t, r.Ready)
	require.Contains(t, r.Parts[DiskPart].Problem, "no space left")
	require.NoError(t, os.Remove(fill))
	require.True(t, New(Disk(dir)).Look().Ready)
	require.Empty(t, names(t, dir))
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

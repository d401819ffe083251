package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sqlite"
)

// TestFault_C12_DiskFull: nothing is half written, and the same store goes on when
// there is room again.
func TestFault_C12_DiskFull(t *testing.T) {
	processtest.RunDiskFull(t, openStore, func(dir string) string { return filepath.Join(dir, "spool.db") })
}

// TestFault_C12_ReadOnly: a folder, and a file, that may not be written. What is there
// can be read, also what stands in the write-ahead log only.
func TestFault_C12_ReadOnly(t *testing.T) {
	dir := t.TempDir()
	processtest.OpenToAll(t, dir)
	closed := filepath.Join(dir, "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	s := mustOpen(t, filepath.Join(closed, "spool.db"), sqlite.Options{})
	memorytest.Must(s.Send(t.Context(), memorytest.Request("kept", "m")))(t)
	logged := filepath.Join(dir, "logged")
	require.NoError(t, os.CopyFS(logged, os.DirFS(closed))) // as a host that lost its power leaves it
	require.NoError(t, s.Close())
	for _, f := range []string{"spool.db", "spool.db-wal"} {
		chmod(t, filepath.Join(logged, f), 0o444)
	}
	require.NoError(t, os.Remove(filepath.Join(logged, "spool.db-shm")))
	chmod(t, logged, 0o555)
	t.Cleanup(func() { _ = os.Chmod(logged, 0o700) })
	processtest.CheckReadOnly(t, filepath.Join(logged, "spool.db"), "is read-only", "read: 1 threads, <nil>")
	chmod(t, closed, 0o555)
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	readOnly := func(path string, words ...string) {
		t.Helper()
		processtest.CheckReadOnly(t, path, append(words, path)...)
	}
	readOnly(filepath.Join(closed, "new.db"), "writable", "folder")
	readOnly(filepath.Join(closed, "deeper", "new.db"), "folder", "permissions")
	chmod(t, s.Path(), 0o444)
	readOnly(s.Path(), "is read-only", "writable", "read: 1 threads, <nil>")
	chmod(t, s.Path(), 0o666)
	readOnly(s.Path(), "folder", "writable", "read: 1 threads, <nil>")
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.Chmod(path, mode))
}

// TestForeignFileIsLeftAlone: a file that is no database is named and kept.
func TestForeignFileIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	text := strings.Repeat("these are my notes\n", 100)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	code(t, err, agent.CodeInvalid, path, "not a SQLite database")
	if b, err := os.ReadFile(path); err != nil || string(b) != text {
		t.Errorf("the file was changed: %v", err)
	}
}

package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/sqlite"
)

// TestFault_C12_DiskFull fills a small file system, or, where none can be
// mounted, the size that a file may have. Nothing is half written, and the
// same store goes on when there is room again.
func TestFault_C12_DiskFull(t *testing.T) {
	dir := t.TempDir()
	limit := "3000000"
	var ballast string
	if err := syscall.Mount("spool", dir, "tmpfs", 0, "size=6m"); err == nil {
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		limit = "0"
		ballast = filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 3_000_000), 0o600); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Logf("no tmpfs (%v): limiting the size of files instead", err)
	}
	path := filepath.Join(dir, "spool.db")
	c := startFull(t, path, limit)
	if !c.out.Scan() || c.out.Text() != string(agent.CodeUnavailable) {
		t.Fatalf("the error has code %q, want unavailable", c.out.Text())
	}
	if ballast != "" {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, path, sqlite.Options{})
	sound(t, s)
	c.release()
	if lines, err := c.lines(); err != nil || strings.Join(lines, "") != "after" {
		t.Fatalf("after there was room: %v, %v", lines, err)
	}
	entries, err := s.Inbox(t.Context(), "s/default")
	if err != nil || entries[len(entries)-1].ID != "after" {
		t.Fatalf("%v", err)
	}
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d has seq %d", i, e.Seq)
		}
	}
	sound(t, s)
}

// TestFault_C12_ReadOnly: a folder, and a file, that may not be written.
func TestFault_C12_ReadOnly(t *testing.T) {
	dir := t.TempDir()
	for d := dir; d != filepath.Dir(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		if strings.HasPrefix(d, filepath.Join(os.TempDir(), "Test")) {
			chmod(t, d, 0o755)
		}
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, filepath.Join(closed, "spool.db"), sqlite.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	chmod(t, closed, 0o555)
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	readOnly := func(path string, words ...string) {
		t.Helper()
		lines, err := startChild(t, "readonly", path, "x").lines()
		if err != nil || len(lines) != 2 || lines[0] != string(agent.CodeUnavailable) {
			t.Fatalf("%s: %v, %v; want unavailable", path, lines, err)
		}
		for _, w := range append(words, path) {
			if !strings.Contains(lines[1], w) {
				t.Errorf("%q does not say %q", lines[1], w)
			}
		}
	}
	readOnly(filepath.Join(closed, "new.db"), "writable", "folder")
	readOnly(filepath.Join(closed, "deeper", "new.db"), "folder", "permissions")
	chmod(t, s.Path(), 0o444)
	readOnly(s.Path(), "writable")
	chmod(t, s.Path(), 0o666)
	readOnly(s.Path(), "folder", "writable")
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// TestForeignFileIsLeftAlone: a file that is no database is named and kept.
func TestForeignFileIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	text := strings.Repeat("these are my notes\n", 100)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	code(t, err, agent.CodeInvalid, path, "not a SQLite database")
	if b, err := os.ReadFile(path); err != nil || string(b) != text {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestClosedStoreSaysSo(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "spool.db"), sqlite.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	_, err := s.Send(t.Context(), request("s", "m"))
	code(t, err, agent.CodeUnavailable, "closed")
	_, err = s.Thread(t.Context(), "", "s/default")
	code(t, err, agent.CodeUnavailable, "closed")
}

package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sqlite"
)

func mustOpen(t *testing.T, path string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s := memorytest.Must(sqlite.Open(t.Context(), path, o))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func code(t *testing.T, err error, want agent.Code, words ...string) {
	t.Helper()
	if agent.CodeOf(err) != want {
		t.Fatalf("got %q (%v), want %s", agent.CodeOf(err), err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// TestFault_C5_KilledAtRandomWrites kills processes in the middle of their turns;
// the next ones go on with what they find.
func TestFault_C5_KilledAtRandomWrites(t *testing.T) {
	processtest.RunKills(t, openStore, filepath.Join(t.TempDir(), "spool.db"), 2)
}

// TestFault_C8_TwentyWriters lets twenty processes write into one thread.
func TestFault_C8_TwentyWriters(t *testing.T) {
	processtest.RunWriters(t, openStore, filepath.Join(t.TempDir(), "spool.db"), 20)
}

func TestProcesses(t *testing.T) {
	processtest.RunProcesses(t, openStore, func(t *testing.T) string { return filepath.Join(t.TempDir(), "new", "spool.db") })
}

// hold takes the file's write lock as a foreign program would.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	db := memorytest.Must(sql.Open("sqlite", "file:"+path))(t)
	conn := memorytest.Must(db.Conn(t.Context()))(t)
	memorytest.Must(conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"))(t)
	release = sync.OnceFunc(func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		require.NoError(t, errors.Join(err, conn.Close(), db.Close()))
	})
	t.Cleanup(release)
	return release
}

// TestFault_C8_BusyIsNotHeld: others who commit all the time are waited for.
func TestFault_C8_BusyIsNotHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	s := mustOpen(t, path, sqlite.Options{BusyTimeout: 400 * time.Millisecond})
	db := memorytest.Must(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)"))(t)
	other := memorytest.Must(db.Conn(t.Context()))(t)
	memorytest.Must(other.ExecContext(t.Context(), "CREATE TABLE others (n); BEGIN IMMEDIATE"))(t)
	done := make(chan error)
	go func() {
		var err error
		for range 12 { // there is hardly a moment between two
			time.Sleep(100 * time.Millisecond)
			_, again := other.ExecContext(context.Background(), "INSERT INTO others VALUES (1); COMMIT; BEGIN IMMEDIATE")
			err = errors.Join(err, again)
		}
		_, last := other.ExecContext(context.Background(), "COMMIT")
		done <- errors.Join(err, last, other.Close(), db.Close())
	}()
	_, err := s.Send(t.Context(), memorytest.Request("s", "m"))
	require.NoError(t, errors.Join(err, <-done))
}

// TestFault_C8_LockHeldSixSeconds: a wait, not an error.
func TestFault_C8_LockHeldSixSeconds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	s := mustOpen(t, path, sqlite.Options{})
	release := hold(t, path)
	start := time.Now()
	time.AfterFunc(6*time.Second, release)
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m")))(t)
	if waited := time.Since(start); waited < 5*time.Second {
		t.Errorf("waited %s only: the lock was not held", waited)
	}
}

func TestFault_C8_LockHeldForGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	s := mustOpen(t, path, sqlite.Options{BusyTimeout: 200 * time.Millisecond})
	release := hold(t, path)
	_, err := s.Send(t.Context(), memorytest.Request("s", "m"))
	code(t, err, agent.CodeUnavailable, path, "another process", "try again")
	memorytest.Must(s.Threads(t.Context(), memory.ThreadFilter{}))(t) // reading needs no write lock
	release()
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m")))(t)
}

// TestGivingUpWaiting: a caller whose context ends stops waiting at once, and
// its successor gets the lock.
func TestGivingUpWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	s := mustOpen(t, path, sqlite.Options{})
	release := hold(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.Send(ctx, memorytest.Request("s", "m"))
	code(t, err, agent.CodeUnavailable, "nothing was changed")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	release()
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m")))(t)
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := mustOpen(t, filepath.Join(dir, "odd ?#%41 name.db"), sqlite.Options{})
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m")))(t)
	files := memorytest.Must(os.ReadDir(dir))(t)
	require.Len(t, files, 3)
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(f.Name(), "odd ?#%41 name.db") {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
}

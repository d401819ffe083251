//go:build postgres

package pgtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestClusterOutlivesAKill: what was committed is there after the server was
// killed and started again; at the end nothing is left. Its clock is an hour behind,
// and no timeout comes early for that.
func TestClusterOutlivesAKill(t *testing.T) {
	t.Setenv(ClockEnv, "-1h")
	var dir string
	t.Run("cluster", func(t *testing.T) {
		c := Start(t)
		dir = c.dir
		db := c.Database(t)
		Exec(t, db, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
		c.Kill(t)
		if err := exec(db, "SELECT 1"); err == nil {
			t.Fatal("the server answers after its kill")
		}
		c.Restart(t)
		Exec(t, db, "INSERT INTO kept SELECT n + 1 FROM kept")
		c.Stop(t)
		c.Restart(t)
		Exec(t, db, "SELECT 1 / (count(*) - 1) FROM kept")
		Exec(t, db, fmt.Sprintf("SELECT 1 / (abs(%d - 3600 - extract(epoch FROM clock_timestamp())) < 600)::int", time.Now().Unix()))
		// A second after a wait began, the server looks at all its timers.
		until := func(lock string) string {
			return "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'kept'::regclass AND mode = 'AccessExclusiveLock' AND " + lock + ") LOOP PERFORM pg_sleep(0.01); END LOOP; END $$; "
		}
		waited := make(chan error)
		go func() { waited <- exec(db, "SET lock_timeout = '10min'; "+until("granted")+"LOCK TABLE kept") }()
		Exec(t, db, "LOCK TABLE kept; "+until("NOT granted")+"SELECT pg_sleep(1.5)")
		if err := <-waited; err != nil {
			t.Errorf("a wait for a lock ended early: %v", err)
		}
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

// TestSchemasAreApart: two stores in one database do not see each other.
func TestSchemasAreApart(t *testing.T) {
	db := Database(t)
	for range 2 {
		Exec(t, Schema(t, db), "CREATE TABLE mine (n int)")
	}
}

// TestMissingServerSaysWhatToDo: no server programs is a failure, not a skip.
func TestMissingServerSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	before := places
	places = []string{t.TempDir() + "/*"}
	t.Cleanup(func() { places = before })
	if _, err := newCluster(); err == nil || !strings.Contains(err.Error(), "make deps") || !strings.Contains(err.Error(), Env) {
		t.Errorf("%v", err)
	}
}

//go:build postgres

package pgtest

import (
	"os"
	"strings"
	"testing"
)

// TestClusterOutlivesAKill: what was committed is there after the server was
// killed and started again; at the end nothing is left.
func TestClusterOutlivesAKill(t *testing.T) {
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

package temporaltest

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/spool-agents/spool/internal/pgtest"
)

// StoreEnv chooses the store of all stacks: sqlite (the default), postgres, file
// or memory. Tests that kill workers need one of the first two.
const StoreEnv = "SPOOL_E2E_STORE"

var chosen sync.Map

// OnPostgres makes the stacks of a test and its subtests use PostgreSQL.
func OnPostgres(t testing.TB) {
	OnStore(t, func(t testing.TB) string {
		// Many processes share the server.
		return pgtest.With(t, pgtest.Database(t), "pool_max_conns", "6")
	})
}

// OnStore makes the stacks of a test and its subtests use the stores that
// store makes, as SPOOL_STORE names them.
func OnStore(t testing.TB, store func(t testing.TB) string) {
	chosen.Store(t.Name(), store)
	t.Cleanup(func() { chosen.Delete(t.Name()) })
}

func storeOf(t testing.TB, s *Stack) string {
	t.Helper()
	for name := t.Name(); name != ""; name = name[:max(0, strings.LastIndex(name, "/"))] {
		if store, ok := chosen.Load(name); ok {
			return store.(func(testing.TB) string)(t)
		}
	}
	switch v := os.Getenv(StoreEnv); v {
	case "", "sqlite":
		return "sqlite:" + s.StorePath()
	case "postgres":
		OnPostgres(t)
		return storeOf(t, s)
	case "file":
		return "file:" + t.TempDir()
	case "memory":
		return "memory:"
	default:
		t.Fatalf("%s is %q: use sqlite, postgres, file or memory", StoreEnv, v)
		return ""
	}
}

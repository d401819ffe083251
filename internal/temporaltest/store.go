package temporaltest

import (
	"strings"
	"sync"
	"testing"

	"github.com/spool-agents/spool/internal/pgtest"
)

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
	return "sqlite:" + s.StorePath()
}

//go:build postgres

package archive_test

import (
	"testing"

	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/postgres"
)

// TestImagesTravelBetweenStores of different technologies.
func TestImagesTravelBetweenStores(t *testing.T) {
	clock := memorytest.NewClock()
	for _, into := range []bool{true, false} {
		pg := memorytest.Must(postgres.Open(t.Context(), pgtest.Database(t), postgres.Options{Clock: clock.Now}))(t)
		t.Cleanup(func() { _ = pg.Close() })
		if into {
			roundTrip(t, store(t, clock), pg)
		} else {
			roundTrip(t, pg, store(t, clock))
		}
	}
}

// TestAll_HostileImportsIntoPostgres: as into SQLite.
func TestAll_HostileImportsIntoPostgres(t *testing.T) {
	database := pgtest.Database(t)
	open := func() memory.ConversationMemoryStore {
		s, err := postgres.Open(t.Context(), pgtest.Schema(t, database), postgres.Options{MaxConnections: 4})
		ok(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	hostileImports(t, open)
	hostileRows(t, open)
	wrongTypes(t, open)
}

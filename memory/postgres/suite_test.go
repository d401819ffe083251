//go:build postgres

package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/postgres"
)

// TestConformance runs the suite, each case on a schema of its own. None of the statements
// that all its cases made reads a whole table.
func TestConformance(t *testing.T) {
	clock, statements := memorytest.NewClock(), &postgres.Statements{}
	database := pgtest.Database(t)
	urls := map[memory.ConversationMemoryStore]string{}
	open := func(t *testing.T, url string) memory.ConversationMemoryStore {
		t.Helper()
		s := memorytest.Must(statements.Open(t.Context(), url, postgres.Options{Clock: clock.Now, MaxConnections: 4}))(t)
		t.Cleanup(func() { _ = s.Close() })
		urls[s] = url
		return s
	}
	memorytest.RunStore(t, memorytest.Harness{
		Open: func(t *testing.T) memory.ConversationMemoryStore { return open(t, pgtest.Schema(t, database)) },
		Reopen: func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore {
			require.NoError(t, s.Close())
			return open(t, urls[s])
		},
		Another: func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore {
			return open(t, urls[s])
		},
		Clock: clock, Durable: true, MultiProcess: true,
	})
	t.Run("no statement reads a whole table", func(t *testing.T) { statements.CheckPlans(t, pgtest.Database(t)) })
}

func TestMain(m *testing.M) {
	processtest.Main(m, processtest.StoreJobs(openStore, nil))
}

func openStore(ctx context.Context, url string) (memory.ConversationMemoryStore, error) {
	return postgres.Open(ctx, url, postgres.Options{MaxConnections: 4})
}

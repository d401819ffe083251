package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sqlite"
)

// TestConformance runs the suite, each case on a file of its own. None of the statements
// that all its cases made reads a whole table.
func TestConformance(t *testing.T) {
	clock, statements := memorytest.NewClock(), sqlite.Statements{}
	open := func(t *testing.T, path string) memory.ConversationMemoryStore {
		t.Helper()
		s := memorytest.Must(statements.Open(t.Context(), path, sqlite.Options{Clock: clock.Now}))(t)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	path := func(s memory.ConversationMemoryStore) string { return s.(*sqlite.Store).Path() }
	memorytest.RunStore(t, memorytest.Harness{
		Open: func(t *testing.T) memory.ConversationMemoryStore {
			return open(t, filepath.Join(t.TempDir(), "spool.db"))
		},
		Reopen: func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore {
			require.NoError(t, s.Close())
			return open(t, path(s))
		},
		Another: func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore {
			return open(t, path(s))
		},
		Clock: clock, Durable: true, MultiProcess: true,
	})
	t.Run("no statement reads a whole table", statements.CheckPlans)
}

func TestAll_ConformanceInMemory(t *testing.T) {
	clock := memorytest.NewClock()
	memorytest.RunStore(t, memorytest.Harness{
		Open: func(t *testing.T) memory.ConversationMemoryStore {
			s := memorytest.Must(sqlite.OpenMemory(t.Context(), sqlite.Options{Clock: clock.Now}))(t)
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		Clock: clock,
	})
}

func TestMain(m *testing.M) {
	processtest.Main(m, processtest.StoreJobs(openStore, processtest.DiskJobs))
}

func openStore(ctx context.Context, path string) (memory.ConversationMemoryStore, error) {
	return sqlite.Open(ctx, path, sqlite.Options{})
}

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

func open(t *testing.T, path string, clock *memorytest.Clock) memory.ConversationMemoryStore {
	t.Helper()
	s := memorytest.Must(sqlite.Open(t.Context(), path, sqlite.Options{Clock: clock.Now}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	clock := memorytest.NewClock()
	path := func(s memory.ConversationMemoryStore) string { return s.(*sqlite.Store).Path() }
	memorytest.RunStore(t, memorytest.Harness{
		Open: func(t *testing.T) memory.ConversationMemoryStore {
			return open(t, filepath.Join(t.TempDir(), "spool.db"), clock)
		},
		Reopen: func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore {
			require.NoError(t, s.Close())
			return open(t, path(s), clock)
		},
		Another: func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore {
			return open(t, path(s), clock)
		},
		Clock: clock, Durable: true, MultiProcess: true,
	})
}

func TestConformanceInMemory(t *testing.T) {
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

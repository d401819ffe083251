package sqlite_test

import (
	"context"
	"testing"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sqlite"
)

func TestMain(m *testing.M) {
	processtest.Main(m, processtest.StoreJobs(openStore, processtest.DiskJobs))
}

func openStore(ctx context.Context, path string) (memory.ConversationMemoryStore, error) {
	return sqlite.Open(ctx, path, sqlite.Options{})
}

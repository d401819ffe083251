//go:build postgres

package postgres_test

import (
	"context"
	"testing"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/postgres"
)

func TestMain(m *testing.M) {
	processtest.Main(m, processtest.StoreJobs(openStore, nil))
}

func openStore(ctx context.Context, url string) (memory.ConversationMemoryStore, error) {
	return postgres.Open(ctx, url, postgres.Options{MaxConnections: 4})
}

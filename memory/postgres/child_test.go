//go:build postgres

package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/postgres"
)

func TestMain(m *testing.M) {
	processtest.StoreChild(openStore, nil)
	os.Exit(m.Run())
}

func openStore(ctx context.Context, url string) (memory.ConversationMemoryStore, error) {
	return postgres.Open(ctx, url, postgres.Options{MaxConnections: 4})
}

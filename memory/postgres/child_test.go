//go:build postgres

package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/postgres"
)

func TestMain(m *testing.M) {
	memorytest.StoreChild(openStore, nil)
	os.Exit(m.Run())
}

func openStore(ctx context.Context, url string) (memory.ConversationMemoryStore, error) {
	return postgres.Open(ctx, url, postgres.Options{MaxConnections: 4})
}

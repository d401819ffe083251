package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sqlite"
)

func TestAppendCostDoesNotGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	memorytest.RunGrowth(t, mustOpen(t, path, sqlite.Options{}), func(thread string, n int) { grow(t, path, thread, n) })
}

// grow makes a thread long without running its turns.
func grow(t *testing.T, path, thread string, n int) {
	t.Helper()
	db := memorytest.Must(sql.Open("sqlite", "file:"+path))(t)
	defer func() { _ = db.Close() }()
	const count = `WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?2) `
	for _, script := range []string{
		`INSERT INTO messages (thread_id, seq, id, superseded_by, body) ` + count +
			`SELECT ?1, i + 1000, 'grown' || i, '', json_object('id', 'grown' || i, 'role', 'user', 'content', hex(randomblob(100)), 'seq', i + 1000) FROM c`,
		`INSERT INTO events (thread_id, seq, type, turn_id, data, at) ` + count +
			`SELECT ?1, i + 1000, 'memory_appended', 't', '{}', 0 FROM c`,
		`UPDATE threads SET last_message = 1000 + ?2, last_event = 1000 + ?2, message_count = message_count + ?2 WHERE id = ?1`,
	} {
		memorytest.Must(db.ExecContext(t.Context(), script, thread, n))(t)
	}
}

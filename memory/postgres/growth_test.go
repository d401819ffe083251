//go:build postgres

package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory/memorytest"
)

// TestAppendCostDoesNotGrow: a turn costs the same on a thread of 100,000
// messages as on a new one, and reading a window of it reads no more than that.
func TestAppendCostDoesNotGrow(t *testing.T) {
	db := pgtest.Database(t)
	s := mustOpen(t, db)
	const n = 100_000
	memorytest.RunGrowth(t, s, func(string, int) {
		pgtest.Exec(t, db, fmt.Sprintf(`
		INSERT INTO messages (thread_id, seq, id, superseded_by, body) SELECT 'long/default', i + 1000, 'grown' || i, '',
			json_build_object('id', 'grown' || i, 'role', 'user', 'content', repeat(md5(i::text), 6), 'seq', i + 1000)::text FROM generate_series(1, %[1]d) AS i;
		INSERT INTO events (thread_id, seq, type, turn_id, data, at) SELECT 'long/default', i + 1000, 'memory_appended', 't', '{}', 0 FROM generate_series(1, %[1]d) AS i;
		UPDATE threads SET last_message = 1000 + %[1]d, last_event = 1000 + %[1]d, message_count = message_count + %[1]d WHERE id = 'long/default'`, n))
	})
	// The server counts the rows that are read, when a connection ends.
	require.NoError(t, s.Close())
	rows := func() int64 {
		return query(t, db, `SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'messages'`)
	}
	settled := func() int64 {
		last := int64(-1)
		for now := rows(); now != last; now = rows() {
			last = now
			time.Sleep(200 * time.Millisecond)
		}
		return last
	}
	before := settled()
	s = mustOpen(t, db)
	if m, err := s.Messages(t.Context(), "long/default", n+900, 100); err != nil || len(m) != 100 {
		t.Fatalf("%d messages, %v", len(m), err)
	}
	require.NoError(t, s.Close())
	if read := settled() - before; read < 100 || read > 200 {
		t.Errorf("%d rows were read for the last 100 of %d", read, n)
	}
}

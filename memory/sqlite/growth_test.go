package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sqlite"
)

// TestAppendCostDoesNotGrow: a turn costs the same on a thread of 100,000
// messages and as many events as on a new one.
func TestAppendCostDoesNotGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	s := mustOpen(t, path, sqlite.Options{})
	turn := func(session, id string) time.Duration {
		start := time.Now()
		memorytest.Must(s.Send(t.Context(), memorytest.Request(session, id)))(t)
		require.NoError(t, memorytest.RunTurns(t.Context(), s, session+"/default"))
		return time.Since(start)
	}
	turn("long", "first")
	grow(t, path, "long/default", 100_000)
	var short, long []time.Duration
	for i := range 40 {
		id := strconv.Itoa(i)
		short, long = append(short, turn("new"+id, id)), append(long, turn("long", id))
	}
	a, b := median(short), median(long)
	t.Logf("median turn: %s on a new thread, %s on a long one", a, b)
	if b > 3*a {
		t.Errorf("a turn takes %s on a thread of 100,000 messages, %s on a new one", b, a)
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
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

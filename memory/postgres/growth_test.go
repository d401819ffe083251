//go:build postgres

package postgres_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory/memorytest"
)

// TestAppendCostDoesNotGrow: a turn costs the same on a thread of 100,000
// messages and as many events as on a new one, and so does reading a window.
func TestAppendCostDoesNotGrow(t *testing.T) {
	db := pgtest.Database(t)
	s := mustOpen(t, db)
	turn := func(session, id string) time.Duration {
		start := time.Now()
		memorytest.Must(s.Send(t.Context(), memorytest.Request(session, id)))(t)
		require.NoError(t, memorytest.RunTurns(t.Context(), s, session+"/default"))
		return time.Since(start)
	}
	window := func(session string, after int64) time.Duration {
		start := time.Now()
		if m, err := s.Messages(t.Context(), session+"/default", after, 100); err != nil || len(m) == 0 {
			t.Fatal(len(m), err)
		}
		return time.Since(start)
	}
	turn("long", "first")
	const n = 100_000
	pgtest.Exec(t, db, fmt.Sprintf(`
		INSERT INTO messages (thread_id, seq, id, superseded_by, body) SELECT 'long/default', i + 1000, 'grown' || i, '',
			json_build_object('id', 'grown' || i, 'role', 'user', 'content', repeat(md5(i::text), 6), 'seq', i + 1000)::text FROM generate_series(1, %[1]d) AS i;
		INSERT INTO events (thread_id, seq, type, turn_id, data, at) SELECT 'long/default', i + 1000, 'memory_appended', 't', '{}', 0 FROM generate_series(1, %[1]d) AS i;
		UPDATE threads SET last_message = 1000 + %[1]d, last_event = 1000 + %[1]d, message_count = message_count + %[1]d WHERE id = 'long/default'`, n))
	var short, long, shortRead, longRead []time.Duration
	for i := range 40 {
		id := strconv.Itoa(i)
		short, long = append(short, turn("new"+id, id)), append(long, turn("long", id))
		shortRead, longRead = append(shortRead, window("new"+id, 0)), append(longRead, window("long", n+900))
	}
	a, b := median(short), median(long)
	t.Logf("median turn: %s on a new thread, %s on a long one", a, b)
	if b > 3*a {
		t.Errorf("a turn takes %s on a thread of %d messages, %s on a new one", b, n, a)
	}
	a, b = median(shortRead), median(longRead)
	t.Logf("median window: %s of 5 messages, %s of 100 on a long thread", a, b)
	if b > 20*a {
		t.Errorf("the last window takes %s on a thread of %d messages, %s on a new one", b, n, a)
	}
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

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

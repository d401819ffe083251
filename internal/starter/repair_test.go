package starter

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/exit"
)

// Row 32: verify --repair mends what can be mended, says so, and says what is left.
func TestRow32_VerifyRepairs(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	b.answered("s2", "m1", "hello", "hi")
	plant := func(query string) {
		t.Helper()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(b.home, "spool.db")+"?_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		defer db.Close()
		_, err = db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	plant(`UPDATE threads SET message_count = 77 WHERE id = 's1/default'`)
	assert.Equal(t, exit.Failed, b.run("verify", "s1/default").code)
	assert.NotContains(t, b.run("verify", "--all", "--repair", "--user", "eve").errout, "repaired s1", "another user mends nothing here")
	r := b.run("verify", "s1/default", "--repair")
	assert.Equal(t, exit.Done, r.code, r.errout)
	assert.Contains(t, r.errout, "repaired s1/default: messageCount is 2, as its rows say, not 77")
	doc := b.run("verify", "--all", "--repair", "--json").json(t)
	assert.Equal(t, true, doc["ok"])
	assert.Nil(t, doc["repaired"], "nothing is left to do")

	plant(`DELETE FROM events WHERE thread_id = 's2/default' AND seq = 1`)
	r = b.run("verify", "--all", "--repair")
	assert.Equal(t, exit.Failed, r.code)
	assert.Contains(t, r.out, "s2/default")
	assert.Contains(t, r.errout, "violations in 2 threads")
	assert.Contains(t, r.errout, "cannot be repaired")
	assert.Equal(t, exit.NotFound, b.run("verify", "--repair", "s1/default", "--user", "eve").code)
}

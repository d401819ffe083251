package starter

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // raw access to the store's file

	"github.com/spool-agents/spool/internal/exit"
)

// damage changes rows behind the store's back.
func (b *bench) damage(query string) {
	b.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.home, "spool.db")+"?_pragma=busy_timeout(10000)")
	require.NoError(b.t, err)
	defer db.Close()
	res, err := db.ExecContext(b.t.Context(), query)
	require.NoError(b.t, err)
	n, err := res.RowsAffected()
	require.NoError(b.t, err)
	require.Positive(b.t, n, query)
}

// Row 32: one damaged row is named and hides nothing else.
func TestRow32_OneDamagedRowHidesNothingElse(t *testing.T) {
	b := newBench(t)
	b.answered("bad", "m1", "hello", "hi")
	b.answered("good", "m1", "hello", "hi")
	b.damage(`UPDATE messages SET body = '{"x' WHERE thread_id = 'bad/default' AND seq = 2`)
	b.damage(`UPDATE threads SET message_count = 9 WHERE id = 'good/default'`)

	check := b.run("verify", "--all")
	assert.Equal(t, exit.Failed, check.code)
	assert.Contains(t, check.out, "bad/default: message 2 cannot be read")
	assert.Contains(t, check.out, "good/default: --repair would mend: messageCount is 2")
	repair := b.run("verify", "--all", "--repair")
	assert.Contains(t, repair.errout, "repaired good/default: messageCount is 2")
	assert.Contains(t, repair.out, "bad/default: message 2 cannot be read")
	assert.NotContains(t, repair.out, "good/default")
	show := b.run("show", "bad/default")
	assert.Equal(t, exit.Failed, show.code)
	assert.Contains(t, show.out, "hello", "the rest is shown")
	assert.Contains(t, show.errout, "message 2 of thread bad/default")

	dir := filepath.Join(b.home, "files")
	export := b.run("sessions", "export", "--all", "--dir", dir, "--json")
	assert.Equal(t, exit.Failed, export.code)
	assert.Equal(t, []any{"good/default"}, export.json(t)["threads"])
	assert.Contains(t, export.errout, "not exported: bad/default")
}

// Row 83: what SPEC allows as an id can be exported and imported, and an export
// that nobody changed is the same whatever characters it holds.
func TestRow83_IDsWithDotsAndTextsWithMarkup(t *testing.T) {
	b := newBench(t)
	b.answered("a..", "m1", "a & b < c", "x > y")
	dir := filepath.Join(b.home, "files")
	require.Equal(t, exit.Done, b.run("sessions", "export", "--all", "--dir", dir).code)
	again := b.run("sessions", "import", dir)
	assert.Equal(t, exit.Done, again.code, again.errout)
	assert.Contains(t, again.errout, "1 thread there already")
	assert.DirExists(t, filepath.Join(dir, "sessions", "a.."))
}

// Row 88: deleting files leaves alone what is not Spool's; left-overs of killed
// exports go with the next one.
func TestRow88_OnlyOwnFilesAreRemoved(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	dir := filepath.Join(b.home, "files")
	require.Equal(t, exit.Done, b.run("sessions", "export", "s1", "--dir", dir).code)
	mine := filepath.Join(dir, "sessions", "s1", "notes.md")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	require.Equal(t, exit.Done, b.run("sessions", "delete", "s1", "--dir", dir).code)
	assert.FileExists(t, mine)
	assert.NoFileExists(t, filepath.Join(dir, "sessions", "s1", "history.json"))

	old, young, other := filepath.Join(dir, ".session_gone.json.tmp-123"), filepath.Join(dir, ".session_now.json.tmp-123"), filepath.Join(dir, ".mine.json.tmp-123")
	for _, path := range []string{old, young, other} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	hourAgo := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(old, hourAgo, hourAgo))
	require.NoError(t, os.Chtimes(other, hourAgo, hourAgo))
	require.Equal(t, exit.Done, b.run("sessions", "export", "s1", "--dir", dir).code)
	assert.NoFileExists(t, old)
	assert.FileExists(t, young)
	assert.FileExists(t, other)
}

// Row 79: an import says which profile its threads are in.
func TestRow79_ImportNamesAnotherProfile(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	dir := filepath.Join(b.home, "files")
	require.Equal(t, exit.Done, b.run("sessions", "export", "s1", "--dir", dir).code)
	r := newBench(t).run("sessions", "import", dir, "--profile", "work")
	assert.Equal(t, exit.Done, r.code)
	assert.Contains(t, r.errout, "1 thread of profile default")
}

// A mistyped path is no new store for a command that reads.
func TestRow26_NoStoreIsMadeByReading(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{"threads"}, {"show", "s/default"}, {"verify", "--all"}, {"sessions", "list"}, {"doctor"}, {"approvals"}, {"sessions", "delete", "s"}} {
		for _, scheme := range []string{"sqlite:", "file:"} {
			path := filepath.Join(b.home, "typo", "x")
			r := b.run(append(args, "--store", scheme+path)...)
			assert.NotEqual(t, exit.Done, r.code)
			assert.True(t, strings.Contains(r.out+r.errout, "there is no store at "+path), "%v: %s%s", args, r.out, r.errout)
			assert.NoDirExists(t, filepath.Dir(path))
		}
	}
}

// A password in a store's address is shown by no error.
func TestNoErrorShowsTheStoresPassword(t *testing.T) {
	b := newBench(t)
	for _, store := range []string{"postgres://u:s3%zzcret@h/db", "postgres://u:s3cret@h:port/db", "postgres://u:s3cret/x@h", "postgress://u:s3cret@h/db"} {
		r := b.run("threads", "--store", store)
		assert.Equal(t, exit.Usage, r.code)
		assert.NotContains(t, r.out+r.errout, "cret")
	}
}

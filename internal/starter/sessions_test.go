package starter

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
)

// withChild is an answered session with a sub-agent, whose thread it returns.
func (b *bench) withChild(session string) string {
	b.t.Helper()
	_, child := b.delegated(session)
	return child
}

func list(t *testing.T, doc map[string]any, name, field string) []string {
	t.Helper()
	out := []string{}
	for _, v := range doc[name].([]any) {
		out = append(out, v.(map[string]any)[field].(string))
	}
	return out
}

// Rows 83, 87: main sessions only, unless all are asked for; newest first; the
// latest is never a sub-agent, and --continue goes on there.
func TestRow83_SessionsList(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	child := b.withChild("s2")
	assert.Equal(t, []string{"s2/default", "s1/default"}, list(t, b.run("sessions", "list", "--json").json(t), "sessions", "threadId"))
	assert.ElementsMatch(t, []string{"s2/default", child, "s1/default"}, list(t, b.run("sessions", "list", "--all", "--json").json(t), "sessions", "threadId"))
	assert.Empty(t, list(t, b.run("sessions", "list", "--workdir", filepath.Join(b.home, "elsewhere"), "--json").json(t), "sessions", "threadId"))
	assert.Equal(t, "s2", list(t, b.run("sessions", "load", chat.Latest, "--json").json(t), "sessions", "id")[0])

	first := b.run("threads", "--limit", "1", "--json").json(t)
	assert.Equal(t, []string{"s2/default"}, list(t, first, "threads", "id"))
	second := b.run("threads", "--limit", "1", "--after", first["next"].(string), "--json").json(t)
	assert.Equal(t, []string{"s1/default"}, list(t, second, "threads", "id"))
	assert.Nil(t, second["next"])
	assert.Contains(t, b.run("threads", "--limit", "1").errout, "there are more: --after")
	assert.Equal(t, exit.Usage, b.run("threads", "--after", "yesterday").code)
}

// TestRow87_ContinueIsNeverASubAgent although one was active last.
func TestRow87_ContinueIsNeverASubAgent(t *testing.T) {
	b := newBench(t)
	t.Chdir(b.home)
	child := b.withChild("s1")
	b.answered("s2", "m1", "newer", "yes")
	th, err := b.store.Thread(t.Context(), owner, child)
	require.NoError(t, err)
	require.NotEmpty(t, th.ID)
	r := b.run("send", "--continue", "--detach", "--json", "and now?")
	assert.Equal(t, "s2/default", r.json(t)["threadId"], r.errout)
	r = b.run("send", "--continue", "--detach", "--json", "--profile", "work", "and now?")
	assert.Equal(t, exit.NotFound, r.code, "another profile has none")
}

// Rows 79, 90: the files of an export, and an equal store from them.
func TestRow79_ExportAndImport(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	child := b.withChild("s1")
	b.answered("s2", "m1", "other", "yes")
	out := b.run("sessions", "export", "s1", "--events", "--json").json(t)
	dir := filepath.Join(b.home, "profiles", "default")
	assert.Equal(t, dir, out["dir"])
	for _, pattern := range []string{"session_*.json", "subagent_session_*.json", "sessions/s1/history.json", "sessions/s1/events.json"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		assert.Len(t, found, 1, pattern)
	}
	want := b.run("show", child, "--events", "--json").out

	// From the files alone.
	other := newBench(t)
	r := other.run("sessions", "import", dir)
	assert.Equal(t, exit.Done, r.code, r.errout)
	assert.Equal(t, want, other.run("show", child, "--events", "--json").out)
	assert.Equal(t, exit.Done, other.run("verify", "--all").code)
	assert.Contains(t, other.run("sessions", "import", dir).errout, "there already")
	stranger := b.run("sessions", "import", dir, "--user", "eve", "--store", "sqlite:"+filepath.Join(b.home, "eve.db"))
	assert.Equal(t, exit.Failed, stranger.code)
	assert.Contains(t, stranger.errout, owner)

	// Files are listed and loaded without a store.
	files := []string{"--dir", dir, "--store", "postgres://nobody@127.0.0.1:1/none", "--json"}
	assert.Equal(t, []string{"s1"}, list(t, b.run(append([]string{"sessions", "list"}, files...)...).json(t), "sessions", "id"))
	assert.Len(t, list(t, b.run(append([]string{"sessions", "list", "--all"}, files...)...).json(t), "sessions", "id"), 2)
	for _, id := range []string{"s1", chat.Latest, child} {
		loaded := b.run(append([]string{"sessions", "load", id}, files...)...)
		require.Equal(t, exit.Done, loaded.code, loaded.errout)
		assert.Len(t, loaded.json(t)["sessions"], 1)
	}
	// What is no folder makes no store.
	for _, none := range []string{filepath.Join(b.home, "none"), out["files"].([]any)[0].(string)} {
		r = b.run("sessions", "import", none, "--store", "sqlite:"+filepath.Join(b.home, "new.db"))
		assert.NotEqual(t, exit.Done, r.code)
		assert.NoFileExists(t, filepath.Join(b.home, "new.db"))
	}

	// What waited is dropped, and the conversation is at its end: a message opens it again.
	b.run("send", "--detach", "-s", "waits", "hi")
	assert.Contains(t, b.run("send", "--when-busy", "reject", "-s", "waits", "hi").errout, "thread waits/default is busy (1 waiting): try later")
	assert.Equal(t, "pending", b.run("show", "waits/default", "--json").json(t)["thread"].(map[string]any)["status"])
	require.Equal(t, exit.Done, b.run("sessions", "export", "waits", "--dir", filepath.Join(b.home, "waits")).code)
	r = other.run("sessions", "import", filepath.Join(b.home, "waits"))
	assert.Contains(t, r.errout, "an entry that waited (message")
	assert.Equal(t, "cancelled", other.run("show", "waits/default", "--json").json(t)["thread"].(map[string]any)["status"])
	assert.Contains(t, other.run("show", "waits/default").out, "in no turn")
	assert.Equal(t, exit.Done, b.run("cancel", "waits/default", "--all").code)
	assert.Equal(t, "cancelled", b.run("show", "waits/default", "--json").json(t)["thread"].(map[string]any)["status"], "so is one whose only message is dropped")

	only := b.run(append([]string{"sessions", "load", "s1", "--prefix", "subagent_session"}, files...)...)
	assert.Equal(t, exit.NotFound, only.code, "the prefix restricts")
	assert.Equal(t, exit.NotFound, b.run("sessions", "load", "none").code)
	assert.Equal(t, exit.NotFound, b.run("sessions", "export", "s1", "--user", "eve").code)
	assert.Equal(t, exit.NotFound, b.run("sessions", "export", "s1", "--profile", "work").code)
	for _, bad := range []string{"../s1", "/etc/passwd", "s1/../s2", "s\u0131", fmt.Sprintf("%0300d", 1)} {
		assert.Equal(t, exit.Usage, b.run("sessions", "export", bad).code, bad)
		assert.Equal(t, exit.Usage, b.run("sessions", "load", bad, "--dir", dir).code, bad)
	}
	assert.Equal(t, exit.Done, b.run("sessions", "export", "--all", "--dir", filepath.Join(b.home, "all"), "--prefix", "chat").code)
	found, err := filepath.Glob(filepath.Join(b.home, "all", "chat_*.json"))
	require.NoError(t, err)
	assert.Len(t, found, 3)
}

// Row 88: delete and expire, of store and files.
func TestRow88_SessionsDeleteAndExpire(t *testing.T) {
	b := newBench(t)
	child := b.withChild("s1")
	b.send("s2", "m1", "waits")
	dir := filepath.Join(b.home, "files")
	require.Equal(t, exit.Done, b.run("sessions", "export", "--all", "--dir", dir).code)
	assert.Contains(t, b.run("sessions", "expire").errout, "nothing expires")
	assert.Contains(t, b.run("sessions", "expire", "--older-than", "0").errout, "nothing expires")
	assert.Contains(t, b.run("sessions", "expire", "--older-than", "30d").errout, "nothing was deleted")
	time.Sleep(20 * time.Millisecond)
	assert.Contains(t, b.run("sessions", "expire", "--older-than", "5ms", "--keep", "s1").errout, "nothing was deleted")

	assert.Equal(t, exit.Conflict, b.run("sessions", "delete", "s2").code, "a message waits there")
	assert.Equal(t, exit.Usage, b.run("sessions", "delete", child).code)
	assert.Equal(t, exit.NotFound, b.run("sessions", "delete", "s1", "--user", "eve").code)
	log := filepath.Join(b.home, "profiles", "default", "sessions", "s1", "http-log.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(log), 0o700))
	require.NoError(t, os.WriteFile(log, []byte("{}\n"), 0o600))
	deleted := b.run("sessions", "expire", "--older-than", "5ms", "--json").json(t)["deleted"]
	assert.ElementsMatch(t, []any{"s1/default", child}, deleted, "what waits stays")
	require.Equal(t, exit.Done, b.run("sessions", "import", dir, "-s", "s1").code)
	assert.Equal(t, exit.Done, b.run("sessions", "delete", "s1").code)
	assert.NoFileExists(t, log)

	assert.Equal(t, exit.Done, b.run("sessions", "delete", "s1", "--dir", dir).code)
	assert.Equal(t, exit.NotFound, b.run("sessions", "delete", "s1", "--dir", dir).code)
	assert.Equal(t, exit.Done, b.run("sessions", "expire", "--older-than", "5ms", "--dir", dir).code)
	assert.Empty(t, list(t, b.run("sessions", "list", "--all", "--dir", dir, "--json").json(t), "sessions", "id"))
}

// Row 89: a broken file is reported and keeps nothing else from being imported.
func TestRow89_BrokenFilesAreReported(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	dir := filepath.Join(b.home, "files")
	require.Equal(t, exit.Done, b.run("sessions", "export", "s1", "--dir", dir).code)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "session_broken00.json"), []byte(`{"id": "bro`), 0o600))
	doc := b.run("sessions", "list", "--dir", dir, "--json").json(t)
	assert.Len(t, doc["sessions"], 1)
	assert.Len(t, doc["broken"], 1)
	r := newBench(t).run("sessions", "import", dir, "--json")
	assert.Equal(t, exit.Failed, r.code)
	assert.Equal(t, []any{"s1/default"}, r.json(t)["added"])
	assert.Contains(t, r.errout, "session_broken00.json")
}

// TestCase_S02_AFolderWithoutSessions is told of, and is a failure.
func TestCase_S02_AFolderWithoutSessions(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.json"), []byte("{}"), 0o600))
	r := b.run("sessions", "import", dir)
	assert.Equal(t, exit.NotFound, r.code)
	assert.Contains(t, r.errout, "has no sessions")
}

// What an import does not take over is said.
func TestAnImportIsClosedHistory(t *testing.T) {
	b := newBench(t)
	b.send("s1", "m1", "waits")
	dir := filepath.Join(b.home, "files")
	require.Equal(t, exit.Done, b.run("sessions", "export", "s1", "--dir", dir).code)
	other := newBench(t)
	r := other.run("sessions", "import", dir)
	assert.Equal(t, exit.Done, r.code, r.errout)
	assert.Contains(t, r.errout, "not taken over from s1/default: an entry that waited (message m1)")
	overdue, err := other.store.Overdue(t.Context(), 0, 0)
	require.NoError(t, err)
	assert.Empty(t, overdue)
}

// A store of files serves these commands too, one process at a time.
func TestSessionsOfAFileStore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := filepath.Join(b.home, "store")
	store, err := spool.OpenStore(t.Context(), "file:"+dir)
	require.NoError(t, err)
	r := b.run("threads", "--store", "file:"+dir)
	assert.Equal(t, exit.Conflict, r.code)
	assert.Contains(t, r.errout, "one process")
	require.NoError(t, store.Close())
	assert.Equal(t, exit.Unavailable, b.run("send", "--detach", "-s", "s1", "--store", "file:"+dir, "hello").code)
	assert.Equal(t, []string{"s1"}, list(t, b.run("sessions", "list", "--json", "--store", "file:"+dir).json(t), "sessions", "id"))
	r = b.run("send", "-s", "s1", "--store", "memory:", "hello")
	assert.Equal(t, exit.Unavailable, r.code, "no Temporal")
	assert.Contains(t, r.errout, "Temporal cannot be reached at 127.0.0.1:1, and a store in memory keeps nothing until it is back")
	assert.NotContains(t, r.errout, "stored")
	r = b.run("send", "--detach", "-s", "latest", "hello")
	assert.Equal(t, exit.Usage, r.code)
	assert.Contains(t, r.errout, "no session can be called latest")
	r = b.run("sessions", "list", "--store", "memory:")
	assert.Equal(t, exit.Usage, r.code)
	assert.Contains(t, r.errout, "gone with it")
}

package starter

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/doctor"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sqlite"
)

// nobodyEnv makes the test binary the program, run by a user who may not write.
const nobodyEnv = "SPOOL_TEST_NOBODY"

func TestMain(m *testing.M) {
	if os.Getenv(nobodyEnv) == "" {
		os.Exit(m.Run())
	}
	if err := processtest.BecomeNobody(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	os.Exit(Run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// storeFinding is what doctor says of the store, in its JSON.
func storeFinding(t *testing.T, out string) doctor.Check {
	t.Helper()
	var doc struct{ Checks []doctor.Check }
	require.NoError(t, json.Unmarshal([]byte(out), &doc), out)
	for _, c := range doc.Checks {
		if c.Name == "store" {
			return c
		}
	}
	t.Fatalf("nothing of the store in %s", out)
	return doctor.Check{}
}

// A store that another program has locked is told of, soon, with what to do.
func TestDoctorOnALockedStore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(b.home, "spool.db")
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	r := b.run("doctor", "--json")
	assert.Equal(t, exit.Unavailable, r.code, r.out)
	found := storeFinding(t, r.out)
	assert.False(t, found.OK)
	assert.Contains(t, found.Detail, path+" could not be used within 5s: another program holds its lock")
	assert.Contains(t, found.ToDo, "end that program")
	_, err = db.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	found = storeFinding(t, b.run("doctor", "--json").out)
	assert.True(t, found.OK, found.Detail)
}

// A store whose folder, or file, may not be written is told of by doctor and by
// what writes; it can be read.
func TestStoreThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	processtest.OpenToAll(t, home)
	folder := filepath.Join(home, "closed")
	require.NoError(t, os.Mkdir(folder, 0o755))
	path := filepath.Join(folder, "spool.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	run := func(args ...string) (int, string) {
		p := processtest.StartProcess(t, []string{nobodyEnv + "=1", "SPOOL_HOME=" + home, "HOME=" + home, "SPOOL_USER=" + owner, "SPOOL_STORE=sqlite:" + path, "TEMPORAL_ADDRESS=127.0.0.1:1"}, args...)
		lines, _ := p.Lines()
		return p.ProcessState.ExitCode(), strings.Join(lines, "\n")
	}
	for what, modes := range map[string][2]os.FileMode{"folder": {0o555, 0o666}, "file": {0o755, 0o444}} {
		require.NoError(t, os.Chmod(folder, modes[0]))
		require.NoError(t, os.Chmod(path, modes[1]))
		code, out := run("doctor", "--json")
		assert.Equal(t, exit.Unavailable, code, out)
		found := storeFinding(t, out)
		assert.False(t, found.OK, "%s: %s", what, found.Detail)
		assert.Contains(t, found.Detail, path)
		assert.Contains(t, found.Detail, "writable for this user")
		assert.Contains(t, found.ToDo, "see to the store, or name another one (SPOOL_STORE, environment SPOOL_STORE)")
		code, out = run("send", "--json", "hi")
		assert.Equal(t, exit.Unavailable, code, "%s: %s", what, out)
		assert.Contains(t, out, path)
		assert.Contains(t, out, "writable for this user")
		code, out = run("threads", "--json")
		assert.Equal(t, exit.Done, code, "%s can be read: %s", what, out)
	}
	require.NoError(t, os.Chmod(folder, 0o755))
}

package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/temporaltest"
)

// onPath puts Temporal's own program on a user's PATH, behind a script that notes how
// it is called.
func onPath(t *testing.T, u *user) (calls func() []string) {
	t.Helper()
	bin, notes := t.TempDir(), filepath.Join(t.TempDir(), "notes")
	script := "#!/bin/sh\necho \"$@\" >> '" + notes + "'\nexec '" + temporaltest.Temporal() + "' \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "temporal"), []byte(script), 0o755))
	u.env = append(u.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() []string {
		raw, err := os.ReadFile(notes)
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(raw)), "\n")
	}
}

// dev --temporal path runs the temporal program of the PATH, starts it again when it
// dies, with the same data, and ends it.
func TestAll_DevRunsTheTemporalProgramOfThePath(t *testing.T) {
	u := newUser(t)
	calls := onPath(t, u)
	cmd, info, said := u.dev("--temporal", "path")
	_, port, _ := strings.Cut(info.Temporal, ":")
	require.Contains(t, calls()[0], "server start-dev --ip 127.0.0.1 --port "+port+" ")
	require.Equal(t, "http://127.0.0.1:", info.UI[:17])
	code, out, errout := u.run("send", "-s", "s", "script: say first")
	require.Equal(t, 0, code, errout)
	require.Equal(t, "first\n", out)

	require.NoError(t, syscall.Kill(info.PIDs.Temporal, syscall.SIGKILL))
	require.Eventually(t, func() bool { return len(calls()) == 2 }, patience, 50*time.Millisecond, "dev said: %s", said)
	hidden := regexp.MustCompile(` --ui-ip \S+ --ui-port \d+ `)
	assert.Equal(t, hidden.ReplaceAllString(calls()[0], " "), hidden.ReplaceAllString(calls()[1], " "), "where it was, with what it had")
	code, out, errout = u.run("send", "-s", "s", "--wait", "script: say second")
	require.Equal(t, 0, code, errout)
	require.Equal(t, "second\n", out)
	code, out, errout = u.run("history", "s/default")
	require.Equal(t, 0, code, errout)
	require.Contains(t, out, "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED")

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	allEnd(t, info)
}

// A program that does not start is told of with its own words.
func TestAll_DevSaysWhyTheTemporalProgramDidNotStart(t *testing.T) {
	u := newUser(t)
	bin := t.TempDir()
	u.env = []string{"PATH=" + bin}
	code, _, errout := u.run("dev", "--temporal", "path", "--temporal-port", "0", "--ui-port", "0")
	require.Equal(t, 2, code, errout)
	require.Contains(t, errout, "the program temporal is not on the PATH: install it, or use --temporal embedded")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "temporal"), []byte("#!/bin/sh\necho 'Error: unknown flag: --ip' >&2\nexit 1\n"), 0o755))
	u.env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	code, _, errout = u.run("dev", "--temporal", "path", "--temporal-port", "0", "--ui-port", "0")
	require.Equal(t, 5, code, errout)
	require.Contains(t, errout, "the Temporal server did not start: exit status 1: Error: unknown flag: --ip")
}

// The server ends with a dev that is killed: nothing listens any more, and its file is
// free for the next one.
func TestAll_TheServerEndsWithADevThatIsKilled(t *testing.T) {
	u := newUser(t)
	dev, info, _ := u.dev("--workers", "0")
	require.NoError(t, dev.Process.Kill())
	_ = dev.Wait() // killed, so it is an error
	assert.Eventually(t, func() bool {
		c, err := net.Dial("tcp", info.Temporal)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, patience, 20*time.Millisecond)
	u.dev("--workers", "0")
}

// Two servers on one file would both report ready and both write.
func TestAll_OneServerPerFile(t *testing.T) {
	u := newUser(t)
	server := temporaltest.StartServer(t)
	linked := filepath.Join(u.home, "temporal.db")
	require.NoError(t, os.Symlink(server.DB(), linked))
	code, _, errout := u.run("dev", "--workers", "0", "--temporal-port", "0", "--ui-port", "0")
	require.Equal(t, 5, code, errout)
	assert.Regexp(t, `temporal\.db is in use by another Temporal server \(of process \d+\): stop that one, or give another --home`, errout)
}

// A server that was killed while it made its file leaves one without tables; the next
// one begins it anew.
func TestAll_AFileThatWasBegunIsBegunAnew(t *testing.T) {
	u := newUser(t)
	for name, text := range map[string]string{"temporal.db": "", "temporal.db-wal": "torn", "temporal.db.lock": "1 begun\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(u.home, name), []byte(text), 0o600))
	}
	u.dev("--workers", "0")
	for _, name := range []string{"temporal.db", "temporal.db-wal"} {
		info, err := os.Stat(filepath.Join(u.home, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "histories hold what people wrote")
	}
}

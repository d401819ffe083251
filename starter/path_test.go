package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/temporaltest"
)

// standIn is a program temporal that notes how it was called and serves as the real
// one would, by the embedded server; flags that the real one does not have end it.
const standIn = `#!/bin/sh
echo "$@" >> "$TEMPORAL_NOTES"
[ "$1 $2" = "server start-dev" ] || exit 64
shift 2
while [ $# -gt 0 ]; do
	case $1 in
	--port) port=$2 ;;
	--ui-port) ui=$2 ;;
	--db-filename) db=$2 ;;
	--ip | --log-level | --search-attribute) ;;
	*) echo "unknown flag: $1" >&2; exit 1 ;;
	esac
	shift 2
done
exec "$TEMPORAL_SERVER" --db "$db" --port "$port" --ui-port "$ui"
`

// dev --temporal path runs the temporal program of the PATH, starts it again when it
// dies, with the same data, and ends it.
func TestDevRunsTheTemporalProgramOfThePath(t *testing.T) {
	u := newUser(t)
	bin, notes := t.TempDir(), filepath.Join(t.TempDir(), "notes")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "temporal"), []byte(standIn), 0o755))
	u.env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TEMPORAL_NOTES=" + notes,
		"TEMPORAL_SERVER=" + filepath.Join(temporaltest.Root(), "bin", "devserver")}
	cmd, info, said := u.dev("--temporal", "path")
	calls := func() []string {
		raw, err := os.ReadFile(notes)
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(raw)), "\n")
	}
	_, port, _ := strings.Cut(info.Temporal, ":")
	require.Regexp(t, `^server start-dev --ip 127\.0\.0\.1 --port `+port+` --ui-port \d+ --db-filename `+u.home+`/temporal-cli\.db --log-level error( --search-attribute [A-Za-z]+=Keyword){8}$`, calls()[0])
	require.Equal(t, "http://127.0.0.1:", info.UI[:17])
	code, out, errout := u.run("send", "-s", "s", "script: say first")
	require.Equal(t, 0, code, errout)
	require.Equal(t, "first\n", out)

	require.NoError(t, syscall.Kill(info.PIDs.Temporal, syscall.SIGKILL))
	require.Eventually(t, func() bool { return len(calls()) == 2 }, patience, 50*time.Millisecond, "dev said: %s", said)
	assert.Equal(t, calls()[0], calls()[1], "where it was, with what it had")
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
func TestDevSaysWhyTheTemporalProgramDidNotStart(t *testing.T) {
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

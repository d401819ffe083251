package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// TestMain also plays the worker that is going to be killed, and a user who may not
// write.
func TestMain(m *testing.M) {
	if command := os.Getenv("SPOOL_TEST_SHELL"); command != "" {
		r, err := tool.New(tool.Shell(tool.DefaultShellMemory))
		if err != nil {
			panic(err)
		}
		dir, _ := os.Getwd()
		res := r.Run(context.Background(), "shell", agent.ToolRun{Workdir: dir, Args: []byte(`{"command":` + strconv.Quote(command) + `}`)})
		fmt.Println(res.Content)
		os.Exit(0)
	}
	if os.Getenv("SPOOL_TEST_NOBODY") != "" {
		if err := asNobody(os.Args[1], os.Args[2], os.Args[3]); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// asNobody runs a tool of a workspace as a user who may write nothing there, and
// prints its result.
func asNobody(dir, name, args string) error {
	const nobody = 65534
	if os.Geteuid() == 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setgid(nobody); err != nil {
			return err
		}
		if err := syscall.Setuid(nobody); err != nil {
			return err
		}
	}
	r, err := tool.New(tool.Builtin(tool.Options{})...)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r.Run(context.Background(), name, agent.ToolRun{Workdir: dir, CallID: "call_1", Args: []byte(args)}))
}

func shell(t *testing.T) (func(args m) agent.ToolResult, string) {
	r, dir := registry(t, tool.Shell(tool.DefaultShellMemory)), t.TempDir()
	return func(args m) agent.ToolResult { return call(t, r, dir, "shell", args) }, dir
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	return !bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" Z"))
}

// pids waits until n processes wrote their ids into dir/pids.
func pids(t *testing.T, dir string, n int) (ids []int) {
	t.Helper()
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(filepath.Join(dir, "pids"))
		ids = nil
		for _, f := range strings.Fields(string(raw)) {
			id, err := strconv.Atoi(f)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		return len(ids) == n
	}, patience, 5*time.Millisecond)
	return ids
}

// patience bounds waits for what is bound to come; it is far below the minutes that
// the processes of these tests would run.
const patience = time.Minute

func gone(t *testing.T, ids []int) {
	t.Helper()
	for _, id := range ids {
		assert.Eventually(t, func() bool { return !alive(id) }, patience, 5*time.Millisecond, "process %d still runs", id)
	}
}

// brood starts five processes that are hard to get rid of: one that ignores
// SIGTERM, one below it, one in the background, one in a session of its own, one
// that was orphaned.
const brood = `trap "" TERM HUP INT
echo $$ >> pids
(trap "" TERM; echo $BASHPID >> pids; sleep 300; sleep 300) &
nohup sh -c 'echo $$ >> pids; sleep 300' >/dev/null 2>&1 &
setsid sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 1; done' &
(setsid sh -c 'echo $$ >> pids; exec sleep 300' >/dev/null 2>&1 &)
`

func TestShellResult(t *testing.T) {
	run, dir := shell(t)
	assert.Equal(t, "out\nerr\n[exit code 0]", succeeded(t, run(m{"command": "echo out; echo err >&2"})))
	assert.Equal(t, "[exit code 0]", succeeded(t, run(m{"command": "true"})))
	failed(t, run(m{"command": "echo no; exit 3"}), agent.ErrUnknown, "no\n[exit code 3]")
	failed(t, run(m{"command": "kill -9 $$"}), agent.ErrUnknown, "[exit code 137]")
	failed(t, run(m{"command": "no-such-command"}), agent.ErrUnknown, "[exit code 127]")
	failed(t, run(m{"command": "echo a\x00"}), agent.ErrInvalidInput, "NUL")
	assert.Equal(t, dir+"\n[exit code 0]", succeeded(t, run(m{"command": "pwd"})))
	assert.Equal(t, "[exit code 0]", succeeded(t, run(m{"command": "cat"})), "there is no input")
	assert.Equal(t, "red\uFFFDx\n[exit code 0]", succeeded(t, run(m{"command": `printf '\033[31mred\xff\0x\n'`})))
}

func TestShellEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	run, _ := shell(t)
	out := succeeded(t, run(m{"command": "env"}))
	assert.NotContains(t, out, "secret")
	assert.Contains(t, out, "SPOOL_IDEMPOTENCY_KEY=call_1\n")
	assert.Contains(t, out, "TERM=dumb\n")
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n[exit code 0]"), "\n") {
		name, _, _ := strings.Cut(line, "=")
		assert.True(t, os.Getenv(name) == "" || slices.Contains(append(tool.PassedOn, "PWD", "SHLVL", "_", "CI", "PAGER", "DEBIAN_FRONTEND"), name), line)
	}
}

// What a command prints is kept whole, far beyond what the model is shown: it
// reads the rest in parts.
func TestShellOutputIsKept(t *testing.T) {
	run, _ := shell(t)
	out := succeeded(t, run(m{"command": `echo first; yes é | head -c 50000001; echo last`}))
	assert.True(t, strings.HasPrefix(out, "first\n"))
	assert.True(t, strings.HasSuffix(out, "é\nlast\n[exit code 0]"))
	assert.NotContains(t, out, "left out")
}

// A command that takes too much memory fails; the worker and its machine do not.
func TestShellMemoryIsLimited(t *testing.T) {
	r, dir := registry(t, tool.Shell(64<<20)), t.TempDir()
	command := `x=$(head -c 90000000 /dev/zero | tr '\0' x); echo ${#x}`
	res := call(t, r, dir, "shell", m{"command": command})
	assert.Equal(t, agent.CallFailed, res.Status, res.Content)
	assert.NotContains(t, res.Content, "90000000")
	assert.Equal(t, "64\n[exit code 0]", succeeded(t, call(t, r, dir, "shell", m{"command": `expr 8 \* 8`})))
	free := registry(t, tool.Shell(0))
	assert.Contains(t, succeeded(t, call(t, free, dir, "shell", m{"command": "ulimit -d; ulimit -c"})), "unlimited\n0")
}

// D7: what ignores SIGTERM is killed within a second.
func TestShellTimeoutKillsAll(t *testing.T) {
	run, dir := shell(t)
	began := time.Now()
	res := run(m{"command": brood + "echo started; while :; do sleep 1; done", "timeoutMs": 3000})
	failed(t, res, agent.ErrTimeout, "started\n[stopped: the command did not end within 3s]")
	assert.Less(t, time.Since(began), patience)
	gone(t, pids(t, dir, 5))
}

func TestShellSIGTERMComesFirst(t *testing.T) {
	run, dir := shell(t)
	res := run(m{"command": `trap 'echo cleaned > mark; exit 0' TERM; echo up; while :; do sleep 0.05; done`, "timeoutMs": 3000})
	failed(t, res, agent.ErrTimeout, "up\n")
	assert.Equal(t, "cleaned\n", content(t, filepath.Join(dir, "mark")))
}

func TestShellCancelKillsAll(t *testing.T) {
	r, dir := registry(t, tool.Shell(tool.DefaultShellMemory)), t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan agent.ToolResult, 1)
	go func() {
		done <- r.Run(ctx, "shell", agent.ToolRun{Workdir: dir, Args: []byte(`{"command":` + strconv.Quote(brood+"wait") + `}`)})
	}()
	ids := pids(t, dir, 5)
	cancel()
	began := time.Now()
	failed(t, <-done, agent.ErrAborted, agent.TextAborted)
	assert.Less(t, time.Since(began), patience)
	gone(t, ids)
}

// A process that a command left behind neither outlives the call nor delays it.
func TestShellEndsBackgroundProcesses(t *testing.T) {
	run, dir := shell(t)
	began := time.Now()
	res := run(m{"command": brood + "while [ $(wc -l < pids) -lt 5 ]; do sleep 0.01; done; echo done"})
	assert.Equal(t, "done\n[exit code 0]", succeeded(t, res))
	assert.Less(t, time.Since(began), patience)
	gone(t, pids(t, dir, 5))
}

// Rule: a tool's processes die with their worker, also by SIGKILL.
func TestShellDiesWithItsWorker(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) { diesWith(t, sig) })
	}
}

func diesWith(t *testing.T, sig syscall.Signal) {
	dir := t.TempDir()
	worker := exec.Command("/proc/self/exe")
	worker.Dir = dir
	worker.Env = append(os.Environ(), "SPOOL_TEST_SHELL="+brood+"while :; do sleep 1; done")
	require.NoError(t, worker.Start())
	ids := pids(t, dir, 5)
	for _, id := range ids {
		assert.True(t, alive(id))
	}
	require.NoError(t, worker.Process.Signal(sig))
	_ = worker.Wait()
	gone(t, ids)
}

// The moment of the worker's death does not matter, the start of a command
// included.
func TestShellDiesWithItsWorkerAtAnyTime(t *testing.T) {
	marker := fmt.Sprintf("31%d", os.Getpid()) // an odd number of seconds to find the processes by
	command := "setsid sleep " + marker + " & (sleep " + marker + " &) ; trap '' TERM; sleep " + marker
	for i := range 30 {
		worker := exec.Command("/proc/self/exe")
		worker.Dir = t.TempDir()
		worker.Env = append(os.Environ(), "SPOOL_TEST_SHELL="+command)
		require.NoError(t, worker.Start())
		time.Sleep(time.Duration(i) * 2 * time.Millisecond)
		require.NoError(t, worker.Process.Kill())
		_ = worker.Wait()
	}
	assert.Eventually(t, func() bool {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range lines {
			raw, _ := os.ReadFile(path)
			if bytes.Contains(raw, []byte(marker)) {
				return false
			}
		}
		return true
	}, patience, 20*time.Millisecond, "a process outlived its worker")
}

// A command that kills whatever has a text in its arguments, which its own command line
// has too, is killed as in any shell; its supervisor is not, nor do daemons get away.
func TestShellKillsByText(t *testing.T) {
	run, dir := shell(t)
	res := run(m{"command": brood + "while [ $(wc -l < pids) -lt 5 ]; do sleep 0.01; done; pkill -9 -f 'text-" + strconv.Itoa(os.Getpid()) + "'; sleep 300"})
	failed(t, res, agent.ErrUnknown, "[exit code 137]")
	gone(t, pids(t, dir, 5))
}

// A command that keeps its supervisor stopped, and the guard as well, ends with its time.
func TestShellSupervisorStopped(t *testing.T) {
	for name, stop := range map[string]string{
		"supervisor": `while :; do kill -STOP $1; done`,
		"both":       `while :; do kill -STOP $1 $2; done`,
	} {
		t.Run(name, func(t *testing.T) {
			run, dir := shell(t)
			res := run(m{"timeoutMs": 1500, "command": "guard=$(cut -d ' ' -f 4 /proc/$PPID/stat)\n" +
				"setsid sh -c 'echo $$ >> pids; trap \"\" TERM; " + stop + "' x $PPID $guard >/dev/null 2>&1 &\necho $$ >> pids; while :; do sleep 1; done"})
			failed(t, res, agent.ErrTimeout, "did not end within")
			gone(t, pids(t, dir, 2))
		})
	}
}

// Should the supervisor itself be killed, or the guard above it, the command and its
// daemons still end and the call says what happened.
func TestShellSupervisorKilled(t *testing.T) {
	for name, kill := range map[string]string{
		"supervisor": `kill -9 $PPID`,
		"guard":      `kill -9 $(cut -d " " -f 4 /proc/$PPID/stat)`,
	} {
		t.Run(name, func(t *testing.T) {
			run, dir := shell(t)
			res := run(m{"command": brood + "env -i setsid sh -c 'echo $$ >> pids; exec sleep 300' >/dev/null 2>&1 &\nwhile [ $(wc -l < pids) -lt 6 ]; do sleep 0.01; done; " + kill + "; while :; do sleep 1; done"})
			failed(t, res, agent.ErrUnknown, "its supervisor ended early")
			gone(t, pids(t, dir, 6))
		})
	}
}

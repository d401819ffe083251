package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/temporaltest"
)

func TestMain(m *testing.M) { temporaltest.Main(m) }

// user runs the built program as a person does, in a home of their own.
type user struct {
	t    *testing.T
	home string
	work string
	env  []string // beside what each has
	bin  string   // where the programs are, "" = where they were built
	as   *syscall.Credential
}

func newUser(t *testing.T) *user {
	t.Helper()
	return &user{t: t, home: t.TempDir(), work: t.TempDir()}
}

func (u *user) command(args ...string) *exec.Cmd {
	program := temporaltest.Starter()
	if u.bin != "" {
		program = filepath.Join(u.bin, "starter")
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = u.work, &syscall.SysProcAttr{Credential: u.as}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.home, "TMPDIR=" + os.TempDir(), "SPOOL_HOME=" + u.home, "SPOOL_USER=tester"}
	cmd.Env = append(cmd.Env, u.env...)
	return cmd
}

// run runs a command to its end.
func (u *user) run(args ...string) (code int, out, errout string) {
	u.t.Helper()
	cmd := u.command(args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(u.t, err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// log collects output of a process that runs on.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// dev starts a stack and returns when it is ready.
func (u *user) dev(args ...string) (*exec.Cmd, config.DevInfo, *log) {
	u.t.Helper()
	cmd := u.command(append([]string{"dev", "--json", "--temporal-port", "0", "--ui-port", "0", "--web-port", "0"}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(u.t, err)
	said := &log{}
	cmd.Stderr = said
	require.NoError(u.t, cmd.Start())
	u.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if u.t.Failed() {
			u.t.Logf("dev said:\n%s", said)
		}
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(u.t, err, "dev said: %s", said)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	var info config.DevInfo
	require.NoError(u.t, json.Unmarshal([]byte(line), &info), line)
	return cmd, info, said
}

// patience bounds waits for what is bound to come; only a failure reaches it.
const patience = 2 * time.Minute

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || !strings.Contains(string(stat), ") Z ") // nobody may have reaped it
}

func allEnd(t *testing.T, info config.DevInfo) {
	t.Helper()
	for _, pid := range append([]int{info.PIDs.Temporal, info.PIDs.Web}, info.PIDs.Workers...) {
		assert.Eventually(t, func() bool { return !alive(pid) }, patience, 50*time.Millisecond, "process %d ended with dev", pid)
	}
}

func TestDevRunsRestartsAndEndsItsParts(t *testing.T) {
	u := newUser(t)
	dev, info, said := u.dev("--workers", "2")
	require.Len(t, info.PIDs.Workers, 2)
	assert.Equal(t, u.home, info.Home)
	live, ok := config.ReadLive(u.home)
	require.True(t, ok)
	assert.Equal(t, info, live, "dev.json is the ready object")

	code, _, errout := u.run("dev")
	assert.Equal(t, 4, code, errout)
	assert.Contains(t, errout, "runs already")

	code, out, errout := u.run("send", "-s", "a", `script: call calculator {"expression":"6*7"} ;; echo it is`)
	require.Equal(t, 0, code, errout)
	assert.Contains(t, out, "42")
	assert.Contains(t, errout, "calculator(expression=6*7)")

	// Every part dies in mid-turn, one after the other.
	code, _, errout = u.run("send", "--detach", "-s", "b", "script: slow 200ms say one two three four five six seven eight nine ten")
	require.Equal(t, 0, code, errout)
	for _, pid := range info.PIDs.Workers {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	require.NoError(t, syscall.Kill(info.PIDs.Temporal, syscall.SIGKILL))
	require.NoError(t, syscall.Kill(info.PIDs.Web, syscall.SIGKILL))
	code, out, errout = u.run("show", "--follow", "b/default")
	require.Equal(t, 0, code, errout)
	assert.Contains(t, out, "one two three four five six seven eight nine ten")
	assert.Eventually(t, func() bool {
		now, ok := config.ReadLive(u.home)
		return ok && now.PIDs.Temporal != info.PIDs.Temporal && now.PIDs.Web != info.PIDs.Web && now.PIDs.Workers[0] != info.PIDs.Workers[0] && now.PIDs.Workers[1] != info.PIDs.Workers[1]
	}, patience, 50*time.Millisecond, "dev.json names the new processes")
	assert.Contains(t, said.String(), "died (signal: killed)")
	assert.Contains(t, said.String(), "starting it again")
	now, ok := config.ReadLive(u.home)
	require.True(t, ok)
	assert.Equal(t, info.Temporal, now.Temporal, "the address stays")
	assert.Equal(t, info.Web, now.Web, "the link too")

	code, out, errout = u.run("verify", "--all", "--json")
	assert.Equal(t, 0, code, out+errout)

	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	require.NoError(t, dev.Wait())
	assert.NoFileExists(t, config.DevPath(u.home))
	allEnd(t, now)
}

func TestAll_PartsEndWithADevThatIsKilled(t *testing.T) {
	u := newUser(t)
	dev, info, _ := u.dev()
	require.NoError(t, dev.Process.Kill())
	_ = dev.Wait() // killed, so it is an error
	allEnd(t, info)
	_, ok := config.ReadLive(u.home)
	assert.False(t, ok, "a file that is left behind counts for nothing")
	dev, again, _ := u.dev()
	assert.NotEqual(t, info.PIDs.Temporal, again.PIDs.Temporal, "the home can be used again")
	require.NoError(t, dev.Process.Signal(os.Interrupt))
	require.NoError(t, dev.Wait())
}

// Ctrl-C lets what runs end, and says so; a second one waits for nothing.
func TestASecondInterruptEndsDevAtOnce(t *testing.T) {
	u := newUser(t)
	u.env = []string{"SPOOL_DRAIN_TIME=10m"}
	dev, info, said := u.dev()
	code, _, errout := u.run("send", "--detach", "-s", "a", "script: slow 1s say "+strings.Repeat("word ", 900))
	require.Equal(t, 0, code, errout)
	assert.Eventually(t, func() bool {
		_, out, _ := u.run("show", "a/default")
		return strings.Contains(out, "word")
	}, patience, 50*time.Millisecond, "the answer streams")
	require.NoError(t, dev.Process.Signal(os.Interrupt))
	assert.Eventually(t, func() bool { return strings.Contains(said.String(), "takes no more tasks") }, patience, 50*time.Millisecond)
	assert.Contains(t, said.String(), "Ctrl-C again ends it at once")
	require.True(t, alive(info.PIDs.Workers[0]), "it waits for the answer")
	require.NoError(t, dev.Process.Signal(os.Interrupt))
	require.Error(t, dev.Wait(), "it ends by the signal")
	allEnd(t, info)
}

func TestAll_DevTakesTheNextFreePortAndSaysSo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	u := newUser(t)
	_, info, said := u.dev("--temporal-port", port, "--workers", "0")
	assert.NotEqual(t, "127.0.0.1:"+port, info.Temporal)
	assert.Contains(t, said.String(), port)
	assert.Equal(t, []int{}, info.PIDs.Workers)

	code, out, errout := u.run("send", "--json", "-s", "s", "is anybody there?")
	assert.Equal(t, 5, code, errout)
	assert.Contains(t, out, `"status":"stored"`)
	assert.Contains(t, errout, "no worker polls the task queue spool-")
}

func TestSendToApprovalToAnswer(t *testing.T) {
	u := newUser(t)
	u.dev()
	code, out, errout := u.run("send", "--json", "-s", "s", `script: call shell {"command":"echo done > proof.txt"} ;; say finished`)
	require.Equal(t, 6, code, errout)
	var doc struct {
		Status  string
		Pending []struct{ ApprovalID string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	assert.Equal(t, "waiting_for_approval", doc.Status)
	require.Len(t, doc.Pending, 1)
	assert.NoFileExists(t, filepath.Join(u.work, "proof.txt"))
	code, _, errout = u.run("approve", doc.Pending[0].ApprovalID)
	require.Equal(t, 0, code, errout)
	code, _, errout = u.run("show", "--follow", "s/default")
	require.Equal(t, 0, code, errout)
	assert.FileExists(t, filepath.Join(u.work, "proof.txt"))

	file := filepath.Join(u.work, "history.json")
	code, out, errout = u.run("history", "s/default")
	require.Equal(t, 0, code, errout)
	require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
	replay := exec.Command(filepath.Join(filepath.Dir(temporaltest.Starter()), "worker"), "replay", file)
	replayed, err := replay.CombinedOutput()
	assert.NoError(t, err, "worker replay reads what history prints: %s", replayed)
	code, out, errout = u.run("history", "--all", "--json", "s/default")
	require.Equal(t, 0, code, errout)
	var all struct {
		Runs []struct {
			RunID   string
			History struct{ Events []any }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.NotEmpty(t, all.Runs)
	assert.NotEmpty(t, all.Runs[0].History.Events)
}

func TestCancelStopsATurn(t *testing.T) {
	u := newUser(t)
	u.dev()
	code, _, errout := u.run("send", "--detach", "-s", "s", "script: first 60s say never")
	require.Equal(t, 0, code, errout)
	assert.Eventually(t, func() bool {
		code, _, _ = u.run("cancel", "s/default")
		return code == 0
	}, patience, 100*time.Millisecond, "the turn begins and is cancelled")
	_, out, _ := u.run("show", "--json", "s/default")
	assert.Contains(t, out, `"status":"cancelled"`)
	code, out, errout = u.run("send", "-s", "s", "script: say still here")
	assert.Equal(t, 0, code, errout)
	assert.Equal(t, "still here\n", out)
}

func TestDemo(t *testing.T) {
	u := newUser(t)
	code, out, errout := u.run("demo")
	require.Equal(t, 0, code, "%s\n%s", out, errout)
	for _, want := range []string{"*** kill -9 of the worker", "runs again", "ok   verify", "ok   no tool whose result was stored ran again"} {
		assert.Contains(t, errout, want)
	}
	assert.NotContains(t, errout, "FAIL")
	for _, want := range []string{"86400", "demo/default  completed", "  agent:researcher:", "  agent:general:", "not repeated:", "/namespaces/default/workflows/demo%2Fdefault"} {
		assert.Contains(t, out, want)
	}
	assert.NoFileExists(t, config.DevPath(u.home), "the demo has a home of its own")
}

func TestSendToAQueueThatNobodyPollsSaysSo(t *testing.T) {
	u := newUser(t)
	u.dev()
	code, out, errout := u.run("send", "--json", "--detach", "-s", "s", "--task-queue", "elsewhere", "script: say hi")
	assert.Equal(t, 5, code, errout)
	assert.Contains(t, out, `"status":"stored"`)
	assert.Contains(t, errout, "no worker polls the task queue elsewhere")

	code, out, errout = u.run("send", "--detach", "-s", "s", "script: say ho")
	if code != 0 { // unless a worker has noticed already
		assert.Equal(t, 5, code, errout)
		assert.Contains(t, errout, "is on the task queue elsewhere, which no worker polls", out)
	}
	code, out, errout = u.run("send", "-s", "s", "script: say at last")
	require.Equal(t, 0, code, errout)
	assert.Equal(t, "at last\n", out, "the workers of the store took it over")

	code, out, _ = u.run("doctor", "--task-queue", "elsewhere")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "SPOOL_TASK_QUEUE is elsewhere, but this store's own queue is spool-")
	code, out, _ = u.run("history", "--run", "0198c2f5-7ab3-7def-8000-000000000000", "s/default")
	assert.Equal(t, 3, code, out)
}

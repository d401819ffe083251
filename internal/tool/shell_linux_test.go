package tool_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// terminal makes a terminal, and what is read from and typed at it.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = user.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetUint32(int(user.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return user, program
}

// A worker in a terminal keeps it for itself: commands can neither read from it nor
// write to it, and do not wait for it.
func TestCase_T01_NoTerminal(t *testing.T) {
	user, program := terminal(t)
	worker := exec.Command("/proc/self/exe")
	worker.Dir = t.TempDir()
	worker.Env = append(os.Environ(), `SPOOL_TEST_SHELL=read x </dev/tty || echo no input; echo planted >/dev/tty || echo no output; stty -a </dev/tty || echo no stty; read y; echo "status $?"; tty`)
	worker.Stdin, worker.Stderr = program, program
	worker.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out, err := worker.Output()
	require.NoError(t, err)
	for _, want := range []string{"no input", "no output", "no stty", "status 1", "not a tty"} {
		assert.Contains(t, string(out), want)
	}
	_, err = program.WriteString("the end\n")
	require.NoError(t, err)
	said := make([]byte, 1<<10)
	n, err := user.Read(said)
	require.NoError(t, err)
	assert.Equal(t, "the end\r\n", string(said[:n]), "on the terminal")
}

// Programs that would wait for a person end at once.
func TestCase_T03_NobodyIsWaitedFor(t *testing.T) {
	t.Setenv("GIT_EDITOR", "sleep 1000")
	t.Setenv("PAGER", "sleep 1000")
	run, dir := shell(t)
	put(t, dir, "home/.gitconfig", "[core]\n\teditor = sleep 1000\n\tpager = sleep 1000\n\taskpass = sleep 1000\n[user]\n\tname = Ada\n\temail = ada@example.com\n")
	succeeded(t, run(m{"command": "export HOME=$PWD/home; git init -q . && touch a && git add a && git commit -qm first && git log"}))
	res := run(m{"command": "export HOME=$PWD/home; touch b; git add b; git commit"})
	assert.Equal(t, agent.CallFailed, res.Status)
	assert.Contains(t, res.Content, "empty commit message")
	assert.Contains(t, succeeded(t, run(m{"command": "export HOME=$PWD/home; git commit -q --amend && git rebase -q -i --root && git log --oneline"})), "first")
	prompt := "export HOME=$PWD/home; printf 'protocol=https\\nhost=example.invalid\\n\\n' | git credential fill"
	assert.Equal(t, agent.CallFailed, run(m{"command": prompt}).Status)
	assert.Contains(t, succeeded(t, run(m{"command": `echo "$CI $DEBIAN_FRONTEND $SSH_ASKPASS_REQUIRE"; read x || echo no input`})), "true noninteractive force\nno input")
	// vi reads from its output where its input is no terminal, and nothing comes there.
	assert.Contains(t, succeeded(t, run(m{"command": `echo hi >f; vi f || echo no editor; cat f`, "timeoutMs": 60000})), "no editor\nhi")
}

// The harmless variables reach commands, all others do not; a command longer than an
// argument may be runs.
func TestCase_T06_EnvironmentAndLongCommands(t *testing.T) {
	for name, value := range map[string]string{
		"TZ": "Asia/Tokyo", "https_proxy": "http://ada:p%40w@proxy.example:3128", "ALL_PROXY": "ada:pw@proxy.example:1080", "USER": "ada", "TMPDIR": t.TempDir(), "SSL_CERT_FILE": "/certs.pem", "AWS_SECRET_ACCESS_KEY": "hush",
	} {
		t.Setenv(name, value)
	}
	run, dir := shell(t)
	out := succeeded(t, run(m{"command": `date +%Z; echo "$https_proxy $USER $SSL_CERT_FILE $AWS_SECRET_ACCESS_KEY $ALL_PROXY|"; [ "$TMPDIR" = "` + os.Getenv("TMPDIR") + `" ] && echo same`}))
	assert.Equal(t, "JST\nhttp://proxy.example:3128 ada /certs.pem  proxy.example:1080|\nsame\n[exit code 0]", out)

	assert.Equal(t, "yes\nline\n[exit code 0]", succeeded(t, run(m{"command": "if true; then\r\n  echo yes\r\nfi\r\ncat <<END\r\nline\r\nEND\r\n"})), "with line ends of Windows")
	long := strings.Repeat("é", 3<<20)
	assert.Equal(t, fmt.Sprintf("%d\n[exit code 0]", len(long)), succeeded(t, run(m{"command": "cat > long.txt <<'END'\n" + long + "\nEND\nprintf %s \"$(cat long.txt)\" | wc -c"})))
	failed(t, run(m{"command": ": " + long + "\nexit 7"}), agent.ErrUnknown, "[exit code 7]")
	assert.Equal(t, long+"\n", content(t, filepath.Join(dir, "long.txt")))
	assert.Empty(t, glob(t, os.Getenv("TMPDIR"), "*"), "the file of the command is removed")
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	failed(t, run(m{"command": ": " + long}), agent.ErrUnknown, "too long for an argument")
}

// A command that makes processes without end is over with its timeout, and a worker
// works on.
func TestShellForkBombsEnd(t *testing.T) {
	run, dir := shell(t)
	marker := fmt.Sprintf("41%d", os.Getpid())
	for name, bomb := range map[string]string{
		"group":    `b() { sleep ` + marker + ` & b | b & }; b; wait`,
		"sessions": `printf 'sleep ` + marker + ` &\nsetsid sh ./b.sh &\nsetsid sh ./b.sh &\n' > b.sh; sh b.sh; sleep ` + marker,
	} {
		// As root nothing else bounds the number of processes.
		res := run(m{"command": "ulimit -u; (ulimit -u 300; " + asUser(bomb) + "); sleep 1000", "timeoutMs": 3000})
		assert.Equal(t, agent.ErrTimeout, res.ErrorReason, "%s: %.300s", name, res.Content)
		assert.Regexp(t, "Resource temporarily unavailable|Cannot fork", res.Content, "%s: the bomb met its limit", name)
		assert.Equal(t, "1\n[exit code 0]", succeeded(t, run(m{"command": "echo 1"})), name)
		gone(t, running(t, marker))
	}
	limit := succeeded(t, run(m{"command": "ulimit -u"}))
	assert.NotContains(t, limit, "unlimited")
	assert.DirExists(t, dir)
}

// asUser runs a command as a user who has no right to go beyond the limit.
func asUser(command string) string {
	quoted := "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
	if os.Geteuid() != 0 {
		return "sh -c " + quoted
	}
	return "chmod 777 .; setpriv --reuid 54321 --regid 54321 --clear-groups bash -c " + quoted
}

// running lists the processes that have a text in their arguments.
func running(t *testing.T, text string) (ids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range lines {
		raw, _ := os.ReadFile(path) // gone by now
		var id int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &id); err == nil && strings.Contains(string(raw), text) {
			ids = append(ids, id)
		}
	}
	return ids
}

// A command that prints without end costs no more memory than another.
func TestShellOutputWithoutEnd(t *testing.T) {
	dir := t.TempDir()
	r := registry(t, tool.Builtin(tool.Options{ShellMemory: tool.DefaultShellMemory})...)
	res := call(t, r, dir, "shell", m{"command": "cat /dev/zero | tr '\\0' x", "timeoutMs": 2000})
	assert.Equal(t, agent.ErrTimeout, res.ErrorReason)
	assert.Less(t, res.Whole.Size(), int64(tool.MaxResult+1))
}

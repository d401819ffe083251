package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/output"
)

//go:embed shell.md
var shellDoc string

const (
	shellTimeout = 2 * time.Minute
	shellLongest = 10 * time.Minute
	// What is kept of the output: all of it up to the size of any result. The
	// model is shown a part and can read the rest.
	shellOutput   = MaxResult - 1024
	shellPatience = 500 * time.Millisecond // between SIGTERM and SIGKILL
)

type shellArgs struct {
	Command   string   `json:"command"`
	TimeoutMs *float64 `json:"timeoutMs"`
}

// DefaultShellMemory is what each process of a command may use, in bytes.
const DefaultShellMemory = 4 << 30

// limited sets the limits of memory, processes and files and becomes the shell that
// runs the command line. A process that needs more is refused it by the kernel, but root
// may start as many processes as it likes.
const limited = `ulimit -c 0
[ "$1" = 0 ] || ulimit -d "$1" 2>/dev/null
[ "$2" = 0 ] || ulimit -u "$2" 2>/dev/null || ulimit -p "$2" 2>/dev/null
[ "$3" = 0 ] || ulimit -f "$3" 2>/dev/null
exec "$4" -c "$5"`

// longestArgument is what surely fits into one argument of a program.
const longestArgument = 100_000

// Shell runs command lines. Nothing it starts outlives the command, a cancel or
// this process; see package supervise. memory bounds the data of each process, in
// bytes; 0 = no limit.
func Shell(memory int64) agent.Tool {
	spec := readOnly("shell", shellDoc, `{"type":"object","properties":{
		"command":{"type":"string","minLength":1,"description":"The command line."},
		"timeoutMs":{"type":"integer","minimum":1,"maximum":600000,"description":"Milliseconds after which the command is stopped; default 120000."}},
		"required":["command"],"additionalProperties":false}`, shellLongest+5*time.Second)
	spec.ReadOnly, spec.Repeatable = false, false
	return checked(spec, checkShell, func(ctx context.Context, r agent.ToolRun, a shellArgs) agent.ToolResult {
		return runShell(ctx, r, a, memory)
	})
}

func checkShell(_ context.Context, _ agent.ToolRun, a shellArgs) error {
	if strings.ContainsRune(a.Command, 0) {
		return &toolError{agent.ErrInvalidInput, "the command contains a NUL byte"}
	}
	return nil
}

func runShell(ctx context.Context, r agent.ToolRun, a shellArgs, memory int64) agent.ToolResult {
	w, err := openWorkspace(r)
	if err != nil {
		return failure(err)
	}
	_ = w.Close()
	if err := checkShell(ctx, r, a); err != nil {
		return failure(err)
	}
	timeout := shellTimeout
	if a.TimeoutMs != nil {
		timeout = time.Duration(*a.TimeoutMs) * time.Millisecond
	}
	inner, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	out := output.New(shellOutput)
	line, done, err := commandLine(strings.ReplaceAll(a.Command, "\r\n", "\n")) // a shell takes CR for a part of the word
	if err != nil {
		return agent.ToolFailed(agent.ErrUnknown, "Error: the command is too long for an argument and cannot be put into a file: %v.", err)
	}
	defer done()
	sh, number := shellPath(), func(n int64) string { return strconv.FormatInt(n, 10) }
	status, err := runSupervised(inner, r, []string{sh, "-c", limited, sh, number(memory >> 10), number(processLimit()), number(fileLimit(r.Workdir)), sh, line}, out)
	result := agent.ToolFailed(agent.ErrUnknown, "")
	var why string
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		result.ErrorReason, why = agent.ErrTimeout, fmt.Sprintf("[stopped: the command did not end within %s]", timeout)
	case errors.Is(err, context.Canceled):
		result.ErrorReason, why = agent.ErrAborted, "["+agent.TextAborted+"]"
	case err != nil:
		why = fmt.Sprintf("Error: the command could not be run: %v.", err)
	default:
		if status == 0 {
			result = agent.ToolOK("")
		}
		why = fmt.Sprintf("[exit code %d]", status)
	}
	result.Content, result.Whole = out.End(why)
	return result
}

// commandLine is a command as an argument: one that is too long is read from a file,
// which done removes.
func commandLine(command string) (line string, done func(), err error) {
	if len(command) <= longestArgument {
		return command, func() {}, nil
	}
	f, err := os.CreateTemp("", "spool-command-*")
	if err != nil {
		return "", nil, err
	}
	_, err = f.WriteString(command)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, errors.Join(err, os.Remove(f.Name()))
	}
	return ". '" + strings.ReplaceAll(f.Name(), "'", `'\''`) + "'", func() { _ = os.Remove(f.Name()) }, nil
}

// runSupervised runs a command to its end and returns its exit status, or
// ctx's error when that ended it.
func runSupervised(ctx context.Context, r agent.ToolRun, command []string, out *output.Bounded) (int, error) {
	p, err := StartSupervised(&exec.Cmd{Dir: r.Workdir, Env: shellEnv(r), Stdout: out, Stderr: out}, command...)
	if err != nil {
		return 0, err
	}
	defer p.Stop(shellPatience)
	select {
	case <-p.Exited():
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	var exit *exec.ExitError
	switch {
	case p.status == nil || errors.Is(p.status, exec.ErrWaitDelay):
		return 0, nil
	case errors.As(p.status, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	}
	return 0, fmt.Errorf("its supervisor ended early: %w", p.status)
}

func shellPath() string {
	if p, err := exec.LookPath("bash"); err == nil {
		return p
	}
	return "/bin/sh"
}

// shellEnv is a small, clean environment. Of two values of a name the later counts.
func shellEnv(r agent.ToolRun) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + r.Workdir, "LANG=C.UTF-8"}
	for _, name := range PassedOn {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+PassOn(name, v))
		}
	}
	return append(append(env, unattended...), "PWD="+r.Workdir, "SPOOL_IDEMPOTENCY_KEY="+r.CallID)
}

// PassedOn are the variables that commands and MCP servers inherit. The worker's own
// environment holds secrets, so there is nothing else that they do.
var PassedOn = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

// PassOn is what of the value of such a variable is passed on: not the name and the
// password for a proxy.
func PassOn(name, value string) string {
	at := strings.LastIndex(value, "@")
	if at < 0 || !strings.HasSuffix(strings.ToLower(name), "_proxy") {
		return value
	}
	scheme, _, found := strings.Cut(value[:at], "://")
	if !found {
		return value[at+1:]
	}
	return scheme + "://" + value[at+1:]
}

// unattended makes programs end at once that would wait for a person: editors, pagers,
// questions for passwords.
var unattended = []string{
	"TERM=dumb", "CI=true", "PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat",
	"GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "EDITOR=false", "VISUAL=false", "VIMINIT=autocmd VimEnter * cquit",
	"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "GCM_INTERACTIVE=never", "SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=force", "SUDO_ASKPASS=/bin/false",
	"DEBIAN_FRONTEND=noninteractive", "PIP_NO_INPUT=1",
}

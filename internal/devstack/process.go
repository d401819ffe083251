package devstack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spool-agents/spool/internal/terminal"
)

// process is a running part of a stack. It ends when its stdin does, that is,
// also when this process dies in any way.
type process struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	out     *lineWriter
	errs    *lineWriter
	done    chan struct{}
	err     error // of Wait, once done is closed
	started time.Time
}

type command struct {
	name string // in logs
	path string
	args []string
	env  []string
	dir  string
	log  io.Writer
}

func start(c command) (*process, error) {
	p := &process{
		name: c.name, done: make(chan struct{}), started: time.Now(),
		out:  &lineWriter{prefix: c.name + " | ", w: c.log, first: make(chan string, 1)},
		errs: &lineWriter{prefix: c.name + " | ", w: c.log},
	}
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.env, c.dir, p.out, p.errs
	p.cmd.SysProcAttr = apart(syscall.SIGTERM)
	p.cmd.WaitDelay = 2 * time.Second // a grandchild may hold the pipes
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s (%s): %w", c.name, c.path, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		p.out.flush()
		p.errs.flush()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop asks the process to end and kills it if it does not within grace. Its stdin
// stays open: when that ends, a worker does not wait for what it runs.
func (p *process) stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// ending says how the process ended, with its last words if it ended itself:
// those of one that was killed have nothing to do with it.
func (p *process) ending() string {
	how := "ended"
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		if how = exit.String(); !exit.Exited() {
			return how
		}
	}
	if last := p.errs.lastLine(); last != "" && !strings.Contains(last, "level=INFO") {
		how += ": " + last
	}
	return how
}

// lineWriter passes whole lines on with a prefix. With first set, the first line
// goes there instead.
type lineWriter struct {
	prefix string
	w      io.Writer
	first  chan string
	mu     sync.Mutex
	sent   bool
	rest   []byte
	last   string
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			break
		}
		l.line(string(l.rest[:i]))
		l.rest = l.rest[i+1:]
	}
	return len(p), nil
}

func (l *lineWriter) line(s string) {
	if l.first != nil && !l.sent {
		l.sent = true
		l.first <- s
		return
	}
	if s = strings.TrimRight(terminal.Clean(s), "\r"); strings.TrimSpace(s) != "" {
		l.last = s
	}
	_, _ = io.WriteString(l.w, l.prefix+s+"\n")
}

func (l *lineWriter) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.line(string(l.rest))
		l.rest = nil
	}
}

func (l *lineWriter) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// findProgram looks for a program of this project next to this one, and by its
// installed name on the PATH.
func findProgram(name, installed, searchPath string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	for _, dir := range besides(self) {
		for _, n := range []string{name, installed} {
			if p := filepath.Join(dir, n); executable(p) {
				return p, nil
			}
		}
	}
	if p := onPath(installed, searchPath); p != "" {
		return p, nil
	}
	return "", fmt.Errorf("the program %s is neither next to this one nor on the PATH (as %s): run `make build`", name, installed)
}

// besides are the folders where programs of this project lie beside one of them. For
// what `go run` has built that is ./bin; for others ./bin may be that of any folder that
// somebody cloned.
func besides(self string) (dirs []string) {
	if self == "" {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	dirs = append(dirs, filepath.Dir(self))
	if wd, err := os.Getwd(); err == nil && strings.Contains(self, "/go-build") {
		dirs = append(dirs, filepath.Join(wd, "bin"))
	}
	return dirs
}

// onPath finds a program on the PATH; "" means that it is not there.
func onPath(name, searchPath string) string {
	for _, dir := range filepath.SplitList(searchPath) {
		if p := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(p) {
			return p
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

package temporaltest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a program under test.
type Process struct {
	name string
	cmd  *exec.Cmd
	in   io.Closer
	log  *safeBuffer
	done chan struct{}
	end  func() // of a worker in this process, which cannot be signalled
}

// Spawn starts a program that ends with its parent: its standard input is a pipe.
func Spawn(name, path string, args, env []string, stdout io.Writer) (*Process, error) {
	p := &Process{name: name, log: &safeBuffer{}, done: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.log
	p.cmd.Stdout = p.log
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// startServing starts a command of the starter that prints a line of JSON, which is read
// into ready, when it serves.
func startServing(name string, env []string, ready any, args ...string) (*Process, error) {
	r, w := io.Pipe()
	p, err := Spawn(name, bins.starter, args, env, w)
	if err != nil {
		return nil, err
	}
	go func() { <-p.done; _ = w.Close() }()
	line := make(chan []byte, 1)
	go func() {
		b := bufio.NewReader(r)
		l, _ := b.ReadBytes('\n')
		line <- l
		_, _ = io.Copy(io.Discard, b) // so that it never waits for a reader
	}()
	select {
	case l := <-line:
		if err = json.Unmarshal(l, ready); err == nil {
			return p, nil
		}
		err = fmt.Errorf("%s said %q instead of being ready\n%s", name, l, p.Log())
	case <-time.After(Patience):
		err = fmt.Errorf("%s was not ready within %s\n%s", name, Patience, p.Log())
	}
	p.stop()
	return nil, err
}

// PID is the number of a process of its own.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process politely and waits for it.
func (p *Process) Stop() { p.stop() }

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL); <-p.done }

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Log is what the process has logged so far.
func (p *Process) Log() string { return p.log.String() }

// Ends waits for the process to end by itself; if it does not, the test fails with
// what was to end it.
func (p *Process) Ends(t testing.TB, why string) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(Patience):
		t.Fatalf("%s does not end within %s: %s\n%s", p.name, Patience, why, p.Log())
	}
}

func (p *Process) stop() {
	if p.end != nil {
		p.end()
		<-p.done
		return
	}
	p.Signal(syscall.SIGCONT)
	_ = p.in.Close()
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(8 * time.Second):
		p.Kill()
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Patience bounds every wait for what is bound to come. Only a failure reaches it,
// however slow the machine is.
const Patience = 3 * time.Minute

// Eventually polls ok until it holds; after Patience the test fails with what.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}

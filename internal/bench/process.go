package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// process is a program under measurement. It ends with this program: its
// standard input is a pipe.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	log  *tailBuffer
	done chan struct{}
}

func spawn(name, path string, args, env []string, dir string, stdout io.Writer) (*process, error) {
	p := &process{name: name, log: &tailBuffer{}, done: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env, p.cmd.Dir = append(os.Environ(), env...), dir
	p.cmd.Stderr, p.cmd.Stdout = p.log, p.log
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
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill sends SIGKILL, waits for the end and returns when the signal was sent.
func (p *process) kill() time.Time {
	at := time.Now()
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
	return at
}

func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(8 * time.Second):
		p.kill()
	}
}

type tailBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const tailSize = 16 << 10

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(p)
	if n := t.b.Len(); n > 2*tailSize {
		t.b.Next(n - tailSize)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

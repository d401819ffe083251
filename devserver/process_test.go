package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// childEnv makes the test binary be the program.
const childEnv = "DEVSERVER_TEST_CHILD"

// patience bounds every wait of the tests; it is reached only by a failure.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// lockedBuffer may be read while the process still writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// process is one running devserver.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr lockedBuffer // complete once exited is closed
	exited chan struct{}
	ready  readiness
	line   string
}

// launch starts the program without waiting for anything.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
	p.cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// A pipe of its own: Wait closes the one that StdoutPipe makes.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout, p.cmd.Stdout = bufio.NewReader(r), w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() { p.kill(); _ = r.Close() })
	return p
}

// start starts the program on free ports and waits for its ready line.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := launch(t, append([]string{"--port", "0", "--ui-port", "0"}, args...)...)
	line := make(chan string, 1)
	go func() { s, _ := p.stdout.ReadString('\n'); line <- s }()
	select {
	case p.line = <-line:
	case <-time.After(patience):
		t.Fatal("no ready line")
	}
	if err := json.Unmarshal([]byte(p.line), &p.ready); err != nil {
		p.kill()
		t.Fatalf("ready line %q: %v\nstderr: %s", p.line, err, p.stderr.String())
	}
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// exit waits for the end and returns the exit code, what stdout held after the
// ready line, and stderr.
func (p *process) exit() (code int, stdout, stderr string) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatal("devserver does not end")
	}
	rest, err := io.ReadAll(p.stdout)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode(), string(rest), p.stderr.String()
}

// wantQuietExit asks the process to stop and requires code 0 and silence from
// then on; before, a server on a busy machine may have had something to report.
func (p *process) wantQuietExit(stop func() error) {
	p.t.Helper()
	before := len(p.stderr.String())
	if err := stop(); err != nil {
		p.t.Fatal(err)
	}
	if code, stdout, stderr := p.exit(); code != exitDone || stdout != "" || stderr[before:] != "" {
		p.t.Errorf("exit code %d, stdout after the ready line %q, stderr %q; want 0 and nothing", code, stdout, stderr[before:])
	}
}

// wantFailure waits for the end and requires the code and each text on stderr.
func (p *process) wantFailure(wantCode int, texts ...string) {
	p.t.Helper()
	code, stdout, stderr := p.exit()
	if code != wantCode || stdout != "" {
		p.t.Errorf("exit code %d, stdout %q; want %d and nothing", code, stdout, wantCode)
	}
	for _, text := range texts {
		if !strings.Contains(stderr, text) {
			p.t.Errorf("stderr %q does not say %q", stderr, text)
		}
	}
}

// client connects to the server.
func (p *process) client() client.Client {
	p.t.Helper()
	c, err := client.Dial(client.Options{
		HostPort: p.ready.Temporal, Namespace: p.ready.Namespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// eventually polls condition, which says what is still missing.
func eventually(t *testing.T, condition func() (missing string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		missing := condition()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(missing)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

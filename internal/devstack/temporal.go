package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/exit"
)

const (
	serverReady = 60 * time.Second
	// serverStop is how long a server may take to stop by itself.
	serverStop = 5 * time.Second
	// A database that interrupts this many looks in a row is stuck.
	stuckAfter = 3
	stuckLook  = 2 * time.Second // between two looks
	stuckReply = 5 * time.Second // for one
)

// tuning is what makes the server fast enough for agents. Without it a workflow gets
// 10 to 20 activities a second, and each retry or next turn waits up to a second.
var tuning = []string{
	"--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal",
	"--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000",
	"--dynamic-config-value", "history.timerProcessorMaxPollRPS=2000",
	"--dynamic-config-value", "history.visibilityProcessorMaxPollRPS=2000",
	"--dynamic-config-value", `history.timerProcessorMaxTimeShift="10ms"`,
	"--dynamic-config-value", `history.workflowIdReuseMinimalInterval="0s"`,
	// A newer server pushes a cancel to the worker.
	"--dynamic-config-value", "system.enableCancelActivityWorkerCommand=true",
	"--dynamic-config-value", "frontend.WorkerCommandsEnabled=true",
}

// Server runs the temporal program as a server on one file.
type Server struct {
	Program string // the temporal program
	DB      string // its SQLite file; made if it is not there
	Port    int    // 0 = a free one; if taken the next free one
	UIPort  int
	NoUI    bool
	UICodec string // where the web UI has payloads decrypted
	Untuned bool   // keep the server's own settings
}

// Run serves until ctx ends, stdin does or the program does. ready is called when it
// serves, with the JSON line that a stack waits for.
func (t Server) Run(ctx context.Context, stdin io.Reader, env []string, log io.Writer, ready func(line any) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		end(nil)
	}()
	db, err := openServerDB(ctx, t.DB)
	if err != nil {
		return err
	}
	defer db.lock.Close()
	at, args, err := t.arguments(log, filepath.Base(db.path))
	if err != nil {
		return err
	}
	server, err := t.start(env, log, db, args)
	if err != nil {
		return err
	}
	defer func() { server.stop() }()
	go server.ends(end)
	if err = awaitServer(ctx, at); err == nil {
		err = db.served(ctx, at.Temporal)
	}
	if err == nil && at.UI != "" {
		err = serveUI(ctx, log, PortOf(strings.TrimPrefix(at.UI, "http://")), at.hidden)
	}
	if err == nil {
		err = ready(at)
	}
	for err == nil && stuck(ctx, at.Temporal) {
		fmt.Fprintln(log, "Temporal's database answers nothing any more: starting Temporal again")
		server.stop()
		if server, err = t.start(env, log, db, args); err == nil {
			go server.ends(end)
			err = awaitServer(ctx, at)
		}
	}
	if ctx.Err() != nil {
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			return nil // it was stopped
		}
	}
	return err
}

// readyServer is the line that a server prints when it serves.
type readyServer struct {
	Temporal string `json:"temporal"`
	UI       string `json:"ui,omitempty"`
	hidden   string // where the UI itself listens
}

func (t Server) arguments(log io.Writer, db string) (readyServer, []string, error) {
	port, err := freePort(log, Loopback, t.Port)
	if err != nil {
		return readyServer{}, nil, err
	}
	ready := readyServer{Temporal: net.JoinHostPort(Loopback, strconv.Itoa(port))}
	args := []string{"server", "start-dev", "--ip", Loopback, "--port", strconv.Itoa(port), "--db-filename", db, "--log-level", "error"}
	if t.NoUI {
		args = append(args, "--headless")
	} else {
		ui, err := freePort(log, Loopback, t.UIPort)
		if err != nil {
			return readyServer{}, nil, err
		}
		ready.UI = "http://" + net.JoinHostPort(Loopback, strconv.Itoa(ui))
		hidden := hiddenAddress()
		own, err := freePort(log, hidden, 0)
		if err != nil {
			return readyServer{}, nil, err
		}
		ready.hidden = net.JoinHostPort(hidden, strconv.Itoa(own))
		args = append(args, "--ui-ip", hidden, "--ui-port", strconv.Itoa(own))
	}
	if t.UICodec != "" {
		args = append(args, "--ui-codec-endpoint", t.UICodec)
	}
	for _, name := range contract.SearchAttributes {
		args = append(args, "--search-attribute", name+"=Keyword")
	}
	args = append(args, closedAPI...)
	if !t.Untuned {
		args = append(args, tuning...)
	}
	return ready, args, nil
}

// freePort returns port or the next free one, and says so if it differs; 0 means any.
// The program opens its ports itself, so each was only free a moment ago.
func freePort(log io.Writer, ip string, port int) (int, error) {
	for i := range 100 {
		p := port + i
		if port == 0 {
			p = 20000 + rand.IntN(12000) // below those of outgoing connections
		}
		if l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(p))); err == nil {
			_ = l.Close()
			if p != port && port != 0 {
				fmt.Fprintf(log, "port %d is taken: using %d\n", port, p)
			}
			return p, nil
		}
	}
	return 0, agent.Errorf(agent.CodeUnavailable, "no free port from %d on", port)
}

type program struct {
	cmd     *exec.Cmd
	gone    chan struct{}
	stopped atomic.Bool
}

// start starts the program. It holds the lock of its file as long as it lives, and dies
// with this process.
func (t Server) start(env []string, log io.Writer, db *serverDB, args []string) (*program, error) {
	cmd := exec.Command(t.Program, args...)
	cmd.Dir = filepath.Dir(db.path) // the name of a folder may hold what a SQLite URI cannot
	cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr = log, []*os.File{db.lock}, apart(syscall.SIGKILL)
	cmd.Env = forTemporal(env, cmd.Dir)
	if err := cmd.Start(); err != nil {
		return nil, agent.Wrap(err, agent.CodeUnavailable, "cannot start %s", t.Program)
	}
	p := &program{cmd: cmd, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the program itself says what was wrong
		close(p.gone)
	}()
	return p, nil
}

func (p *program) ends(end func(error)) {
	if <-p.gone; !p.stopped.Load() {
		end(exit.With(max(p.cmd.ProcessState.ExitCode(), exit.Failed)))
	}
}

func (p *program) stop() {
	if p == nil {
		return
	}
	p.stopped.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(serverStop):
		_ = p.cmd.Process.Kill() // a killed server loses nothing
		<-p.gone
	}
}

// stuck waits until the server's database refuses everything, and returns false if ctx
// ends before. A cancelled request interrupts the one connection that Temporal has to
// SQLite. If a statement was left open on it, each later one is interrupted, too, until
// the program ends (sqlite3_interrupt; seen with temporal 1.5.1 and modernc.org/sqlite
// 1.34.1 under load).
func stuck(ctx context.Context, address string) bool {
	c, err := client.NewLazyClient(client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		<-ctx.Done()
		return false
	}
	defer c.Close()
	for refused := 0; refused < stuckAfter; {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(stuckLook):
		}
		asked, cancel := context.WithTimeout(ctx, stuckReply)
		_, err := c.WorkflowService().ListNamespaces(asked, &workflowservice.ListNamespacesRequest{PageSize: 1})
		cancel()
		if refused++; err == nil || !strings.Contains(err.Error(), "interrupted (9)") {
			refused = 0
		}
	}
	return true
}

func awaitServer(ctx context.Context, ready readyServer) error {
	for _, address := range []string{ready.Temporal, ready.hidden} {
		err := until(ctx, func() error {
			if address == "" {
				return nil
			}
			c, err := net.Dial("tcp", address)
			if err == nil {
				_ = c.Close()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// until repeats a question until it is answered; the last error says why it was not.
func until(ctx context.Context, ask func() error) error {
	for deadline := time.Now().Add(serverReady); ; {
		err := ask()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return agent.Wrap(err, agent.CodeUnavailable, "the Temporal server was not ready after %s", serverReady)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

package starter

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/exit"
)

const (
	serverReady = 60 * time.Second
	// serverStop is how long a server may take to stop by itself.
	serverStop = 5 * time.Second
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

// temporalServerCmd runs the temporal program as a server on one file until stdin
// ends, and prints one JSON line when it serves. The programs of a stack and tests
// start it; people use dev.
type temporalServerCmd struct {
	Program string `required:"" placeholder:"PATH" help:"The temporal program."`
	DB      string `name:"db" required:"" placeholder:"FILE" help:"SQLite file of Temporal's data; made if it is not there."`
	Port    int    `required:"" placeholder:"N" help:"Port (0 = a free one); if taken the next free one."`
	UIPort  int    `name:"ui-port" placeholder:"N" help:"Port of the web UI, likewise."`
	NoUI    bool   `help:"Run no web UI."`
	UICodec string `name:"ui-codec-endpoint" placeholder:"URL" help:"Where the web UI has payloads decrypted."`
	Untuned bool   `help:"Keep the server's own settings."`
}

// Run serves until it is interrupted, stdin ends or the program does.
func (t *temporalServerCmd) Run(ctx context.Context, a *app) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		_, _ = io.Copy(io.Discard, a.stdin)
		end(nil)
	}()
	db, err := openServerDB(ctx, t.DB)
	if err != nil {
		return err
	}
	defer db.lock.Close()
	ready, args, err := t.arguments(a, filepath.Base(db.path))
	if err != nil {
		return err
	}
	stop, err := t.start(a, db, args, end)
	if err != nil {
		return err
	}
	defer stop()
	if err = awaitServer(ctx, ready); err == nil {
		err = db.served(ctx, ready.Temporal)
	}
	if err == nil {
		err = a.Document(ready)
	}
	if err == nil {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			return nil // it was told to end
		}
	}
	return err
}

// readyServer is the line that a server prints when it serves.
type readyServer struct {
	Temporal string `json:"temporal"`
	UI       string `json:"ui,omitempty"`
}

// arguments are those of the temporal program, and where it will be found.
func (t *temporalServerCmd) arguments(a *app, db string) (readyServer, []string, error) {
	port, err := freePort(a, t.Port)
	if err != nil {
		return readyServer{}, nil, err
	}
	ready := readyServer{Temporal: net.JoinHostPort(loopback, strconv.Itoa(port))}
	args := []string{"server", "start-dev", "--ip", loopback, "--port", strconv.Itoa(port), "--db-filename", db, "--log-level", "error"}
	if t.NoUI {
		args = append(args, "--headless")
	} else {
		ui, err := freePort(a, t.UIPort)
		if err != nil {
			return readyServer{}, nil, err
		}
		ready.UI = "http://" + net.JoinHostPort(loopback, strconv.Itoa(ui))
		args = append(args, "--ui-port", strconv.Itoa(ui))
	}
	if t.UICodec != "" {
		args = append(args, "--ui-codec-endpoint", t.UICodec)
	}
	for _, name := range contract.SearchAttributes {
		args = append(args, "--search-attribute", name+"=Keyword")
	}
	if !t.Untuned {
		args = append(args, tuning...)
	}
	return ready, args, nil
}

// freePort returns port or the next free one, and says so if it differs; 0 means any.
// The program opens its ports itself, so each was only free a moment ago.
func freePort(a *app, port int) (int, error) {
	for i := range 100 {
		p := port + i
		if port == 0 {
			p = 20000 + rand.IntN(12000) // below those of outgoing connections
		}
		if l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(p))); err == nil {
			_ = l.Close()
			if p != port && port != 0 {
				a.Progress("port %d is taken: using %d", port, p)
			}
			return p, nil
		}
	}
	return 0, agent.Errorf(agent.CodeUnavailable, "no free port from %d on", port)
}

// start starts the program and returns how to stop it. The program holds the lock of
// its file as long as it lives, dies with this process, and calls end if it ends.
func (t *temporalServerCmd) start(a *app, db *serverDB, args []string, end func(error)) (stop func(), err error) {
	cmd := exec.Command(t.Program, args...)
	cmd.Dir = filepath.Dir(db.path) // the name of a folder may hold what a SQLite URI cannot
	cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr = a.Err, []*os.File{db.lock}, apart(syscall.SIGKILL)
	for _, v := range a.env {
		if !strings.HasPrefix(v, "TEMPORAL_") { // meant for clients of another server
			cmd.Env = append(cmd.Env, v)
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, agent.Wrap(err, agent.CodeUnavailable, "cannot start %s", t.Program)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the program itself says what was wrong
		end(exit.With(max(cmd.ProcessState.ExitCode(), exit.Failed)))
		close(gone)
	}()
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(serverStop):
			_ = cmd.Process.Kill() // a killed server loses nothing
			<-gone
		}
	}, nil
}

// awaitServer waits until the server and its web UI listen.
func awaitServer(ctx context.Context, ready readyServer) error {
	for _, address := range []string{ready.Temporal, strings.TrimPrefix(ready.UI, "http://")} {
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

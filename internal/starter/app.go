package starter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/telemetry/export"
	"github.com/spool-agents/spool/memory"
)

// dialTimeout bounds the wait for a Temporal server that may not be there.
const dialTimeout = 10 * time.Second

// app is one run of the program.
type app struct {
	name   string
	env    []string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	out    *checkedWriter // stdout

	flags map[string]string
	json  bool
	// terminal means that a person reads stdout and types into stdin.
	terminal bool
	// asks means that a person can be asked: they type into stdin and read stderr.
	alone bool // this process runs the worker of its store
	asks  bool

	interrupts chan os.Signal
	talking    atomic.Bool
	keyboard   *keyboard // once started
	keysOnce   sync.Once
	closers    []func()
	told       *export.Export // telemetry, once started
}

func newApp(env []string, stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{name: programName(os.Args[0]), env: env, stdin: stdin, stderr: &syncWriter{w: stderr}, out: &checkedWriter{w: stdout}}
	a.stdout = a.out
	a.terminal = isTerminal(stdin) && isTerminal(stdout)
	a.asks = isTerminal(stdin) && isTerminal(stderr)
	return a
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// syncWriter lets several goroutines and processes write whole lines.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write passes p on in one piece.
func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// checkedWriter keeps the first error of its writes.
type checkedWriter struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// Write passes p on.
func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil {
			c.err = err
		}
	}
	return n, err
}

func (c *checkedWriter) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (a *app) close() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
	a.closers = nil
}

// interruptible makes a context that ends with SIGTERM, and with SIGINT unless a
// command handles interrupts itself: then they arrive in a.interrupts.
func (a *app) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	a.interrupts = make(chan os.Signal, 4)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s == os.Interrupt && a.talking.Load() {
					a.interrupts <- s
					continue
				}
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

// lookup finds an environment variable; the last one counts.
func (a *app) lookup(name string) string {
	for i := len(a.env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// config reads the settings.
func (a *app) config() (config.Config, error) {
	return config.Load(config.Options{Flags: a.flags, Env: a.lookup, Environ: func() []string { return a.env }})
}

// open reads the settings, opens the store and, if wanted, connects to Temporal.
// A Temporal server that is not there is no error: the client knows.
func (a *app) open(ctx context.Context, temporal bool) (*spool.Client, config.Config, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, cfg, err
	}
	if cfg.Server != "" {
		return nil, cfg, onStoreItself()
	}
	if err := existing(cfg); err != nil {
		return nil, cfg, err
	}
	c, err := a.openWith(ctx, cfg, temporal)
	return c, cfg, err
}

func onStoreItself() error {
	return usage("this command works on the store itself: leave out --server (SPOOL_SERVER), or use it where the store is")
}

// existing refuses a store that is not there: a command that only reads, or changes
// what is there, must not make an empty one of a mistyped path.
func existing(cfg config.Config) error {
	path, isFile := strings.CutPrefix(cfg.Store, "sqlite:")
	if !isFile {
		if path, isFile = strings.CutPrefix(cfg.Store, "file:"); isFile {
			path, _, _ = strings.Cut(path, "?")
		}
	}
	if !isFile {
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // what else is wrong, opening it tells
	}
	return agent.Errorf(agent.CodeNotFound, "there is no store at %s (from %s): check the path; send, chat, dev and worker make a new one",
		path, cfg.Source(config.Store))
}

func (a *app) openWith(ctx context.Context, cfg config.Config, temporal bool) (*spool.Client, error) {
	if err := a.noStoreInMemory(cfg); err != nil {
		return nil, err
	}
	if err := prepareHome(cfg); err != nil {
		return nil, err
	}
	store, err := spool.OpenStoreWith(ctx, cfg.Store, spool.StoreOptions{
		UserID: cfg.User, Profile: cfg.Profile, Report: func(err error) { a.progress("%s", clean(err.Error())) },
	})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() { _ = store.Close() })
	if !temporal {
		return spool.NewClient(store, nil, clientOptions(cfg)), nil
	}
	_, c := a.client(ctx, cfg, store, a.tell(ctx, false))
	return c, nil
}

func clientOptions(cfg config.Config) spool.ClientOptions {
	return spool.ClientOptions{UserID: cfg.User, Profile: cfg.Profile, TaskQueue: cfg.TaskQueue, Namespace: cfg.Temporal.Namespace, UI: cfg.TemporalUI}
}

// tell starts telemetry, if the environment asks for it. A command that is run by a
// person is not refused for what is wrong with it.
func (a *app) tell(ctx context.Context, lasting bool) *export.Export {
	if a.told != nil {
		return a.told
	}
	service := "spool"
	if lasting {
		service = "spool-web"
	}
	told, err := export.Start(ctx, service, lasting, slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		a.progress("%s", clean(err.Error()))
		told = &export.Export{}
	}
	a.told = told
	a.closers = append(a.closers, told.Close)
	return told
}

// client connects to Temporal; nil if it is away, which the Spool client knows.
func (a *app) client(ctx context.Context, cfg config.Config, store memory.ConversationMemoryStore, told *export.Export) (client.Client, *spool.Client) {
	o := clientOptions(cfg)
	o.TracerProvider, o.MeterProvider = told.Tracers, told.Meters
	cfg.Temporal.MetricsHandler = told.Temporal()
	tc, err := dial(ctx, cfg.Temporal)
	if err != nil {
		o.Unreachable = fmt.Errorf("no server answers at %s", cfg.Temporal.HostPort)
		return nil, spool.NewClient(store, nil, o)
	}
	a.closers = append(a.closers, tc.Close)
	return tc, spool.NewClient(store, tc, o)
}

// prepareHome makes the home directory if the store lies in it.
func prepareHome(cfg config.Config) error {
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok && strings.HasPrefix(path, cfg.Home) {
		if err := os.MkdirAll(cfg.Home, 0o700); err != nil {
			return agent.Wrap(err, agent.CodeUnavailable, "cannot make the home directory %s", cfg.Home)
		}
	}
	return nil
}

func dial(ctx context.Context, o client.Options) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	o.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	return client.DialContext(ctx, o)
}

// printJSON writes one document as one line.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// print writes a line of result; model text in args has to be cleaned before.
func (a *app) print(format string, args ...any) {
	fmt.Fprintf(a.stdout, format+"\n", args...)
}

// progress writes a line to stderr.
func (a *app) progress(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}

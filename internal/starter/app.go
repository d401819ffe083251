package starter

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/devstack"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/remote"
	"github.com/spool-agents/spool/internal/screen"
	"github.com/spool-agents/spool/internal/telemetry/export"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// dialTimeout bounds the wait for a Temporal server that may not be there.
const dialTimeout = 10 * time.Second

type app struct {
	*chat.Person
	env    []string
	stdin  io.Reader
	stdout io.Writer
	flags  map[string]string
	// opened is what a command inside of chat works on, base the flags of that chat.
	opened chat.Conversations
	base   map[string]string
	// live means that a person reads stdout as it comes.
	live    bool
	closers []func()
	export  *export.Export // telemetry, once started
	ignored []string       // settings of the folder that do not count, and were told of
}

func newApp(env []string, stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{env: env, stdin: stdin, stdout: stdout, live: terminal.Is(stdin) && terminal.Is(stdout)}
	p := &printer.Printer{Name: programName(os.Args[0]), Width: terminal.Width(stdout), Out: printer.NewWriter(stdout), Err: printer.NewWriter(stderr)}
	present := terminal.Is(stdin) && terminal.Is(stderr)
	a.Person = &chat.Person{Printer: p, Present: present, Interrupts: make(chan os.Signal, 4), Typed: terminal.NewLines(stdin, p.Err, present)}
	if term := a.lookup("TERM"); present && term != "" && term != "dumb" {
		a.Forms = screen.Forms{In: stdin, Out: stderr, Env: env, Plain: a.lookup("NO_COLOR") != ""}
	}
	return a
}

func (a *app) close() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
	a.closers = nil
}

// interruptible makes a context that ends with SIGTERM, and with SIGINT unless a
// command handles interrupts itself. After it, an interrupt ends the program at once;
// SIGTERM does not, as the system sends it more than once when a parent dies.
func (a *app) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s == os.Interrupt && a.Talking.Load() {
					a.Interrupts <- s
					continue
				}
				// Before cancel: what then stops may say at once that a second interrupt ends it.
				signal.Reset(os.Interrupt)
				if self, err := os.FindProcess(os.Getpid()); err == nil && s == os.Interrupt && ctx.Err() != nil {
					_ = self.Signal(s) // it came in between
				}
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

func (a *app) lookup(name string) string { return devstack.Lookup(a.env, name) }

// config reads the settings, and says once what of the folder's does not count.
func (a *app) config() (config.Config, error) {
	cfg, err := a.configIn("")
	for _, text := range cfg.Ignored {
		if !slices.Contains(a.ignored, text) {
			a.Progress("%s", terminal.Visible(text))
		}
	}
	a.ignored = append(a.ignored, cfg.Ignored...)
	return cfg, err
}

// configIn reads the settings as in a working directory, "" = this one.
func (a *app) configIn(dir string) (config.Config, error) {
	return config.Load(config.Options{Flags: a.flags, Env: a.lookup, Environ: func() []string { return a.env }, Dir: dir})
}

func (a *app) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// storeConfig reads the settings for a command that works on the store itself.
func (a *app) storeConfig() (config.Config, error) {
	cfg, err := a.config()
	if err == nil && cfg.Server != "" {
		err = exit.Misuse("this command works on the store itself: leave out --server (SPOOL_SERVER), or use it where the store is")
	}
	return cfg, err
}

// open opens the store and, if wanted, connects to Temporal. That no Temporal server
// is there is no error: the client knows.
func (a *app) open(ctx context.Context, temporal bool) (*spool.Client, config.Config, error) {
	cfg, err := a.storeConfig()
	if err != nil {
		return nil, cfg, err
	}
	c, err := a.openExisting(ctx, cfg, temporal)
	return c, cfg, err
}

// threads opens what holds the threads: the web server that is configured, or the
// store, connected to Temporal if wanted.
func (a *app) threads(ctx context.Context, temporal bool) (chat.Conversations, config.Config, error) {
	return a.threadsBy(func(cfg config.Config) (*spool.Client, error) { return a.openExisting(ctx, cfg, temporal) })
}

// newThreads is threads for a command that may make the store.
func (a *app) newThreads(ctx context.Context) (chat.Conversations, config.Config, error) {
	return a.threadsBy(func(cfg config.Config) (*spool.Client, error) { return a.openWith(ctx, cfg, true) })
}

// servingThreads is newThreads for a command that waits for turns: on a store that
// serves one process it runs the worker too.
func (a *app) servingThreads(ctx context.Context) (chat.Conversations, config.Config, error) {
	return a.threadsBy(func(cfg config.Config) (*spool.Client, error) {
		if cfg.OneProcess() {
			return a.serveHere(ctx, cfg)
		}
		return a.openWith(ctx, cfg, true)
	})
}

func (a *app) threadsBy(open func(config.Config) (*spool.Client, error)) (chat.Conversations, config.Config, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, cfg, err
	}
	if cfg.Server == "" {
		c, err := open(cfg)
		if err != nil {
			return nil, cfg, err
		}
		return c, cfg, nil
	}
	if err := a.onlyServer("SPOOL_SERVER, from " + cfg.Source(config.Server)); err != nil {
		return nil, cfg, err
	}
	c, err := remote.New(cfg.Server, cfg.ServerToken.Reveal())
	if err != nil {
		return nil, cfg, err
	}
	return c, cfg, nil
}

// openExisting refuses a store that is not there: a command that only reads, or changes
// what is there, must not make an empty one of a mistyped path.
func (a *app) openExisting(ctx context.Context, cfg config.Config, temporal bool) (*spool.Client, error) {
	if err := existing(cfg); err != nil {
		return nil, err
	}
	return a.openWith(ctx, cfg, temporal)
}

func existing(cfg config.Config) error {
	scheme, path, _ := strings.Cut(cfg.Store, ":")
	switch scheme {
	case "file":
		path, _, _ = strings.Cut(path, "?")
	case "sqlite":
	default:
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // opening it says what else is wrong
	}
	return agent.Errorf(agent.CodeNotFound, "there is no store at %s (from %s): check the path; send, chat, dev and worker make a new one",
		path, cfg.Source(config.Store))
}

func (a *app) openWith(ctx context.Context, cfg config.Config, temporal bool) (*spool.Client, error) {
	if c, ok := a.opened.(*spool.Client); ok {
		return c, nil
	}
	if cfg.Store == memoryStore {
		return nil, agent.Errorf(agent.CodeInvalid, "the store memory: belongs to one process and is gone with it, so there is nothing in it for this command: use %s chat, or a store that stays, sqlite:PATH or file:DIR", a.Name)
	}
	if err := prepareHome(cfg); err != nil {
		return nil, err
	}
	fresh := existing(cfg) != nil
	store, err := spool.OpenStoreWith(ctx, cfg.Store, spool.StoreOptions{
		UserID: cfg.User, Profile: cfg.Profile, Report: func(err error) { a.Progress("%v", err) },
	})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() { _ = store.Close() })
	a.announce(cfg, fresh)
	if !temporal {
		return spool.NewClient(store, nil, clientOptions(cfg)), nil
	}
	return a.client(ctx, cfg, store, a.telemetry(ctx, false)), nil
}

// announce says that a store is new: its path may have been mistyped.
func (a *app) announce(cfg config.Config, fresh bool) {
	if fresh {
		a.Progress("made a new store: %s (from %s)", terminal.Visible(cfg.Store), cfg.Source(config.Store))
	}
}

func clientOptions(cfg config.Config) spool.ClientOptions {
	return spool.ClientOptions{UserID: cfg.User, Profile: cfg.Profile, TaskQueue: cfg.TaskQueue, Namespace: cfg.Temporal.Namespace, UI: cfg.TemporalUI}
}

// telemetry starts telemetry, if the environment asks for it. A command that is run by
// a person is not refused for what is wrong with it.
func (a *app) telemetry(ctx context.Context, lasting bool) *export.Export {
	if a.export != nil {
		return a.export
	}
	service := "spool"
	if lasting {
		service = "spool-web"
	}
	var err error
	if a.export, err = export.Start(ctx, export.Options{Service: service, Lasting: lasting, Scraped: lasting}, a.log()); err != nil {
		a.Progress("%v", err)
		a.export = &export.Export{}
	}
	a.closers = append(a.closers, a.export.Close)
	return a.export
}

// client connects to Temporal. The Spool client knows if that cannot be reached.
func (a *app) client(ctx context.Context, cfg config.Config, store memory.ConversationMemoryStore, t *export.Export) *spool.Client {
	o := clientOptions(cfg)
	o.TracerProvider, o.MeterProvider = t.Tracers, t.Meters
	cfg.Temporal.MetricsHandler = t.Temporal()
	tc, err := dial(ctx, cfg.Temporal)
	if err != nil {
		o.Unreachable = errors.New(cfg.NoTemporal(a.Name))
		return spool.NewClient(store, nil, o)
	}
	a.closers = append(a.closers, tc.Close)
	return spool.NewClient(store, tc, o)
}

// prepareHome makes the home directory if the store lies in it.
func prepareHome(cfg config.Config) error {
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok && strings.HasPrefix(path, cfg.Home) {
		return agent.Wrap(os.MkdirAll(cfg.Home, 0o700), agent.CodeUnavailable, "cannot make the home directory %s", cfg.Home)
	}
	return nil
}

func dial(ctx context.Context, o client.Options) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	o.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	return client.DialContext(ctx, o)
}

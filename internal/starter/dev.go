package starter

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/devstack"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/terminal"
)

// workersReady bounds the wait for workers of a new stack.
const workersReady = 60 * time.Second

type devCmd struct {
	Workers      int    `placeholder:"N" default:"1" help:"Number of workers (default ${default}); 0 runs none: for workers that you start yourself."`
	Temporal     string `placeholder:"embedded|path|ADDRESS" default:"embedded" help:"Run the temporal program beside this one, else that on the PATH (embedded, default), only that on the PATH (path), or use a server that runs at HOST:PORT."`
	TemporalPort int    `placeholder:"N" default:"7233" help:"Port of the server (default ${default}); if taken the next free one, 0 = a free one."`
	UIPort       int    `name:"ui-port" placeholder:"N" default:"8233" help:"Port of its web UI (default ${default}); likewise."`
	WebPort      int    `placeholder:"N" default:"8080" help:"Port of the web page and the HTTP API (default ${default}); likewise."`
	CodecPort    int    `placeholder:"N" default:"8234" help:"Port where the web UI has payloads decrypted, if SPOOL_ENCRYPTION_KEYS are set (default ${default}); likewise."`
}

func (d *devCmd) Validate() error {
	if d.Workers < 0 || d.Workers > 64 {
		return fmt.Errorf("--workers %d is not valid: use 0 to 64", d.Workers)
	}
	for _, p := range []struct {
		name string
		port int
	}{{"--temporal-port", d.TemporalPort}, {"--ui-port", d.UIPort}, {"--web-port", d.WebPort}, {"--codec-port", d.CodecPort}} {
		if p.port < 0 || p.port > 65535 {
			return fmt.Errorf("%s %d is not valid: use 0 to 65535, 0 for a free one", p.name, p.port)
		}
	}
	if d.Temporal != devstack.Embedded && d.Temporal != devstack.OnPath && devstack.PortOf(d.Temporal) == 0 {
		return fmt.Errorf("--temporal %q is not valid: use embedded, path or HOST:PORT", d.Temporal)
	}
	return nil
}

// Run supervises the stack until it is interrupted.
func (d *devCmd) Run(ctx context.Context, a *app) error {
	if err := d.setServer(a.flags); err != nil {
		return err
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	cfg.DemoModel = cfg.Demo() // who tries a stack need not have a key; workers say which model answers
	known, err := boot.LoadModels(cfg, a.lookup)
	if err != nil {
		return err // no worker would start
	}
	if err := os.MkdirAll(cfg.Home, 0o700); err != nil {
		return agent.Wrap(err, agent.CodeUnavailable, "cannot make the home directory %s", cfg.Home)
	}
	lock, err := lockHome(cfg.Home)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := d.tryParts(ctx, cfg); err != nil {
		return err
	}
	s, err := d.start(ctx, a, cfg, known.KeyVariables())
	if err != nil {
		return err
	}
	defer s.Close()
	if d.own() {
		cfg.UseServer(s.Info().Temporal, "")
	}
	defer a.close() // before the server stops
	here, page := cfg.OneProcess() && d.Workers > 0, ""
	if here {
		if page, err = d.serveHere(ctx, a, cfg); err != nil {
			return err
		}
	} else if err := a.awaitWorkers(ctx, cfg, s); err != nil {
		return err
	}
	info := s.Info()
	if here {
		info.PIDs.Workers, info.Web = []int{os.Getpid()}, page
	}
	if err := config.WriteDev(cfg.Home, info); err != nil {
		return err
	}
	defer func() { _ = config.RemoveDev(cfg.Home) }()
	if err := d.announce(a, info, here); err != nil {
		return err
	}
	<-ctx.Done()
	a.Progress("stopping; what runs may end within %s. Ctrl-C again ends it at once", cfg.DrainTime)
	return nil
}

func (d *devCmd) setServer(flags map[string]string) error {
	if !d.own() {
		flags[config.TemporalAddress] = d.Temporal
		return nil
	}
	for _, f := range []struct{ flag, setting string }{{"temporal-namespace", config.TemporalNamespace}, {"temporal-ui", config.TemporalUI}} {
		if flags[f.setting] != "" {
			return exit.Misuse("--%s changes nothing here, leave it out: dev runs a server of its own, with a web UI and the namespace default; it counts with --temporal HOST:PORT", f.flag)
		}
	}
	flags[config.TemporalAddress] = "127.0.0.1:7233"
	return nil
}

// start starts the processes of the stack, and the codec server where there are
// keys of encryption. Those in the variables keys are for workers only.
func (d *devCmd) start(ctx context.Context, a *app, cfg config.Config, keys []string) (*devstack.Stack, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	workers, err := d.processes(cfg)
	if err != nil {
		return nil, err
	}
	codec, err := a.startCodec(ctx, cfg, d.CodecPort)
	if err != nil {
		return nil, err
	}
	s, err := devstack.Start(ctx, devstack.Options{
		Home: cfg.Home, Store: cfg.Store, Server: d.Temporal, Port: d.TemporalPort, UIPort: d.UIPort, UI: cfg.TemporalUI, Workers: workers,
		Env: d.partEnv(a, cfg), Keys: keys, Demo: cfg.Demo(), Workspace: cfg.Workspace, DrainTime: cfg.DrainTime, Dir: wd, Log: a.Err, Codec: codec.url(),
		Web: !cfg.OneProcess(), WebPort: d.WebPort, WebToken: cmp.Or(cfg.WebToken.Reveal(), httpapi.NewToken()),
		Changed: func(info config.DevInfo) {
			codec.allow(info.UI)
			if err := config.WriteDev(cfg.Home, info); err != nil {
				a.Progress("%v", err)
			}
		},
	})
	if err == nil {
		codec.allow(s.Info().UI)
	}
	return s, err
}

// partEnv passes on to workers and web server what flags say.
func (d *devCmd) partEnv(a *app, cfg config.Config) []string {
	env := slices.Clone(a.env)
	for name, value := range map[string]string{"SPOOL_TASK_QUEUE": cfg.TaskQueue, "SPOOL_USER": a.flags[config.User], "SPOOL_PROFILE": a.flags[config.Profile],
		"TEMPORAL_NAMESPACE": a.flags[config.TemporalNamespace]} {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// tryParts opens what the stack works with and does not start itself, so that what
// is wrong with it is said at once: the store, and the server of somebody else.
func (d *devCmd) tryParts(ctx context.Context, cfg config.Config) error {
	if !cfg.OneProcess() { // then its worker is the first to open it
		store, err := spool.OpenStore(ctx, cfg.Store)
		if err != nil {
			return err
		}
		if err := store.Close(); err != nil {
			return err
		}
	}
	if !d.own() {
		c, err := dial(ctx, cfg.Temporal)
		if err != nil {
			return agent.Errorf(agent.CodeUnavailable, "no Temporal server answers at %s: start it, or use --temporal embedded", d.Temporal)
		}
		c.Close()
	}
	return nil
}

// serveHere runs worker and web server in this process, the one that the store serves.
func (d *devCmd) serveHere(ctx context.Context, a *app, cfg config.Config) (link string, err error) {
	c, err := a.serveHere(ctx, cfg)
	if err != nil {
		return "", err
	}
	w, err := a.startWeb(ctx, webOptions{cfg: cfg, store: c.Store(), temporal: c.Temporal(), host: devstack.Loopback, port: d.WebPort, token: cmp.Or(cfg.WebToken.Reveal(), httpapi.NewToken()), lasting: true, demo: cfg.Demo()})
	if err != nil {
		return "", err
	}
	return w.link, nil
}

// processes is how many workers run in processes of their own.
func (d *devCmd) processes(cfg config.Config) (int, error) {
	switch {
	case !cfg.OneProcess():
		return d.Workers, nil
	case d.Workers > 1:
		return 0, exit.Misuse("--workers %d is not possible: the store %s serves one process only, so there is one worker at most; use sqlite:PATH for more", d.Workers, cfg.Store)
	}
	return 0, nil // the one runs in this process
}

// own reports whether the stack runs its own server.
func (d *devCmd) own() bool { return d.Temporal == devstack.Embedded || d.Temporal == devstack.OnPath }

func (d *devCmd) announce(a *app, info config.DevInfo, here bool) error {
	if v := a.lookup("TEMPORAL_ADDRESS"); v != "" && v != info.Temporal {
		a.Progress("TEMPORAL_ADDRESS is %s in this environment and outranks this stack: unset it for programs that are to use %s", v, info.Temporal)
	}
	if a.lookup("SPOOL_SERVER") != "" {
		a.Progress("SPOOL_SERVER is set in this environment and outranks this stack: unset it for programs that are to use it")
	}
	info.Store = agent.MaskURL(info.Store)
	if a.JSON {
		return a.Document(info)
	}
	for _, part := range [][2]string{{"Temporal", info.Temporal}, {"Temporal UI", info.UI}, {"Codec server", info.Codec}, {"Web page", info.Web}, {"Store", info.Store}, {"Home", info.Home}} {
		if part[1] != "" {
			a.Print("%-12s %s", part[0], terminal.Visible(part[1]))
		}
	}
	a.Print("")
	if here {
		a.Print("Ready. What waits in the store is answered now. The store serves one process only, this one:")
		a.Print("to talk, use the web page; or stop this, start %s dev --workers 0, and use %s chat in another terminal.", a.Name, a.Name)
		return nil
	}
	a.Print("Ready. In another terminal:")
	at := ""
	if a.flags[config.Home] != "" {
		at = " --home " + terminal.Visible(info.Home)
	}
	a.Print("  %s chat%s", a.Name, at)
	a.Print("  %s send%s \"Show me what Spool can do.\"", a.Name, at)
	a.Print("  %s threads%s", a.Name, at)
	a.Print("Ctrl-C stops everything; nothing is lost.")
	return nil
}

// lockHome makes sure that a home has one dev stack. The lock ends with the process.
func lockHome(home string) (io.Closer, error) {
	path := filepath.Join(home, "dev.lock")
	f, holder, err := devstack.LockFile(context.Background(), path, 0)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, agent.Errorf(agent.CodeConflict, "a dev stack of %s runs already (pid %s): use it, stop it, or give another --home", home, holder)
	}
	return f, nil
}

// awaitWorkers returns when every worker of a stack polls the task queue.
func (a *app) awaitWorkers(ctx context.Context, cfg config.Config, s *devstack.Stack) error {
	var c *spool.Client
	for deadline := time.Now().Add(workersReady); ; {
		if c == nil {
			opened, err := a.openWith(ctx, cfg, true)
			if err != nil {
				return err
			}
			if opened.Connected() {
				c = opened
			}
		}
		away := func(pid int) bool { return !c.Serving(ctx, fmt.Sprintf("@%d@", pid)) }
		if c != nil && !slices.ContainsFunc(s.Info().PIDs.Workers, away) {
			return nil
		}
		if time.Now().After(deadline) {
			return agent.Errorf(agent.CodeUnavailable, "the workers did not get ready within %s; what they said stands above", workersReady)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
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
	return devstack.Server(*t).Run(ctx, a.stdin, a.env, a.Err, a.Document)
}

package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/devstack"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/health"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/web"
)

type webCmd struct {
	WebPort     int      `placeholder:"N" default:"8080" help:"Port (default ${default}); if taken the next free one, 0 = a free one."`
	Host        string   `placeholder:"ADDRESS" default:"127.0.0.1" help:"Address to listen at (default ${default}); 0.0.0.0 = all of this machine."`
	WebHostName []string `placeholder:"NAME" help:"Name under which browsers may ask for it, beside localhost and addresses; may be repeated."`
	ParentPipe  bool     `hidden:"" help:"End when standard input ends: used by dev."`
	ModelKey    bool     `hidden:"" help:"The workers have a model's key: used by dev, which gives it to them only."`
}

func (w *webCmd) Validate() error {
	if w.WebPort < 0 || w.WebPort > 65535 {
		return fmt.Errorf("--web-port %d is not valid: use 0 to 65535, 0 for a free one", w.WebPort)
	}
	if _, err := netip.ParseAddr(w.Host); err != nil && w.Host != "localhost" {
		return fmt.Errorf("--host %q is not valid: use an address of this machine, such as 127.0.0.1 or 0.0.0.0", w.Host)
	}
	return nil
}

func (w *webCmd) Run(ctx context.Context, a *app) error {
	if w.ParentPipe {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, a.stdin)
			cancel()
		}()
	}
	settings := a.config
	if w.ParentPipe { // dev has said what does not count
		settings = func() (config.Config, error) { return a.configIn("") }
	}
	cfg, err := settings()
	if err != nil {
		return err
	}
	var c *spool.Client
	if cfg.OneProcess() { // then this is the process
		c, err = a.serveHere(ctx, cfg)
	} else {
		c, err = a.openWith(ctx, cfg, false)
	}
	if err != nil {
		return err
	}
	s, err := a.startWeb(ctx, webOptions{
		cfg: cfg, store: c.Store(), temporal: c.Temporal(), host: w.Host, port: w.WebPort, names: w.WebHostName,
		token: cfg.WebToken.Reveal(), lasting: w.ParentPipe, demo: cfg.Demo() && !w.ModelKey,
	})
	if err != nil {
		return err
	}
	err = a.Show(map[string]string{"web": s.link}, func() {
		a.Print("Open %s", s.link)
		if s.token == "" {
			a.Progress("users log in with their tokens; %s web-token USER makes one", a.Name)
		}
		a.Progress("Ctrl-C stops the server; turns go on without it")
	})
	if err != nil {
		return err
	}
	<-s.done
	return s.err
}

type webOptions struct {
	cfg   config.Config
	store memory.ConversationMemoryStore
	// temporal may be nil: then it is connected to when it is needed.
	temporal client.Client
	host     string
	port     int
	names    []string
	// token lets the configured user in; "" makes one if nobody else may.
	token string
	// lasting means that the token differs from run to run of the same stack, and
	// sessions are to outlive it.
	lasting bool
	demo    bool // the workers have no model but the scripted one
}

type webServer struct {
	link  string // with the token, if one was made
	token string
	done  chan struct{}
	err   error // of the server, once done is closed
}

// startWeb listens and serves until ctx ends or the program does.
func (a *app) startWeb(ctx context.Context, o webOptions) (*webServer, error) {
	users, token, err := webUsers(o)
	if err != nil {
		return nil, err
	}
	tc, telemetry := o.temporal, a.telemetry(ctx, true)
	if tc == nil {
		t := o.cfg.Temporal
		t.MetricsHandler = telemetry.Temporal()
		t.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
		if tc, err = client.NewLazyClient(t); err != nil {
			return nil, agent.Wrap(err, agent.CodeInvalid, "the settings of Temporal")
		}
		a.closers = append(a.closers, tc.Close)
	}
	site, err := web.New(web.Files)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInternal, "the files of the page")
	}
	s, err := httpapi.New(httpapi.Options{
		Store: o.store, Users: users, Page: site, Hosts: hostNames(o.names), UI: o.cfg.TemporalUI, Demo: o.demo, Log: a.log(), Wrap: telemetry.Handler,
		Health: health.New(health.Store(o.store), health.Temporal(tc), health.Polled(spool.NewClient(o.store, tc, clientOptions(o.cfg)).Workers)), Metrics: telemetry.Scrape,
		Administrator: o.cfg.User, Workspace: o.cfg.Workspace, Home: o.cfg.Home, Private: o.cfg.Private, Approvals: o.cfg.WebApprovals,
		Client: func(store memory.ConversationMemoryStore, userID string) *spool.Client {
			c := clientOptions(o.cfg)
			c.UserID, c.TracerProvider, c.MeterProvider = userID, telemetry.Tracers, telemetry.Meters
			return spool.NewClient(store, tc, c)
		},
		Agents: func() []agent.SpecialistAgentConfig {
			catalog, _ := template.Load(boot.Folders(o.cfg)) // agents prints the warnings
			return catalog.List()
		},
	})
	if err != nil {
		return nil, err
	}
	l, err := a.listen(o.host, o.port)
	if err != nil {
		return nil, err
	}
	if o.token != "" && !o.lasting {
		token = "" // who set it knows it, and logs are read by others
	}
	w := &webServer{token: token, link: webLink(l.Addr(), token), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(w.done)
		w.err = s.Serve(ctx, l)
	}()
	a.closers = append(a.closers, func() {
		cancel()
		<-w.done
	})
	return w, nil
}

// webUsers are those of the file of tokens, and the configured one if a token is
// given for it or nobody else could get in.
func webUsers(o webOptions) (*httpapi.Users, string, error) {
	file, later := cmp.Or(o.cfg.WebTokens, webTokensPath(o.cfg)), ""
	if _, err := os.Stat(file); o.cfg.WebTokens == "" && errors.Is(err, os.ErrNotExist) {
		file, later = "", file
	}
	users, err := httpapi.NewUsers(file, filepath.Join(o.cfg.Home, "web.key"))
	if err != nil {
		return nil, "", err
	}
	if later != "" {
		users.Await(later)
	}
	token, session := o.token, ""
	if token == "" && !users.Any() {
		token, session = httpapi.NewToken(), httpapi.LocalSession
	}
	if o.lasting {
		session = httpapi.LocalSession
	}
	if token != "" {
		if err := users.Add(o.cfg.User, token, session); err != nil {
			return nil, "", err
		}
	}
	return users, token, nil
}

func webTokensPath(cfg config.Config) string { return filepath.Join(cfg.Home, "web-tokens") }

func hostNames(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, strings.ToLower(strings.TrimSuffix(n, ".")))
	}
	return out
}

// webLink is where a browser on this machine finds a server.
func webLink(at net.Addr, token string) string {
	link := openURL(at) + "/"
	if token != "" {
		link += "?token=" + url.QueryEscape(token)
	}
	return link
}

// openURL is where what listens at an address can be opened on this machine: no
// browser knows 0.0.0.0 or [::], which stand for all addresses.
func openURL(at net.Addr) string {
	tcp := at.(*net.TCPAddr)
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = devstack.Loopback
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// listen opens port, or the next free one, and says so if it differs.
func (a *app) listen(host string, port int) (net.Listener, error) {
	var first error
	for p := port; p < port+100 && p <= 65535; p++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(p)))
		if err == nil {
			if p != port {
				a.Progress("port %d is taken: using %d", port, p)
			}
			return l, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, agent.Wrap(first, agent.CodeUnavailable, "no free port from %d on", port)
}

type webTokenCmd struct {
	UserID string `arg:"" name:"user-id" help:"Whose threads the token shows."`
}

func (w *webTokenCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if strings.HasPrefix(w.UserID, "#") {
		return exit.Misuse("user %q is not possible: a line that begins with # is a comment in the file of tokens", w.UserID)
	}
	if allowed := config.CheckUser(w.UserID); allowed != "" {
		return exit.Misuse("user %q is not valid: use %s", w.UserID, allowed)
	}
	path := cmp.Or(cfg.WebTokens, webTokensPath(cfg))
	token, err := httpapi.AppendToken(path, w.UserID)
	if err != nil {
		return err
	}
	return a.Show(map[string]string{"user": w.UserID, "token": token, "file": path}, func() {
		a.Print("%s", token)
		a.Progress("this token is shown only now; %s keeps its SHA-256. Remove its line to take it back", path)
	})
}

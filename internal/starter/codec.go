package starter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/devstack"
	"github.com/spool-agents/spool/internal/encryption"
	"github.com/spool-agents/spool/internal/exit"
)

type codecServerCmd struct {
	Listen   string   `placeholder:"ADDRESS:PORT" default:"127.0.0.1:8234" help:"Where to listen (default ${default}); beyond loopback SPOOL_CODEC_TOKEN is needed."`
	Origin   []string `placeholder:"URL" help:"Web UI whose pages may use it, such as http://localhost:8233; may be repeated (default: the configured UI)."`
	HostName []string `placeholder:"NAME" help:"Name under which it may be asked, beside localhost and addresses; may be repeated."`
}

func (c *codecServerCmd) Validate() error {
	host, port, err := net.SplitHostPort(c.Listen)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
		return fmt.Errorf("--listen %q is not valid: use ADDRESS:PORT, such as 127.0.0.1:8234", c.Listen)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		return fmt.Errorf("--listen %q is not valid: use an address of this machine, such as 127.0.0.1 or 0.0.0.0", c.Listen)
	}
	for _, origin := range c.Origin {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("--origin %q is not valid: use the URL of a web UI, such as http://localhost:8233", origin)
		}
	}
	return nil
}

func (c *codecServerCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if !cfg.Encryption.Any() {
		return exit.Misuse("%s", "there is nothing to decode with: set encryptionKeys (SPOOL_ENCRYPTION_KEYS) to "+encryption.Allowed)
	}
	if !onLoopback(c.Listen) && !cfg.CodecToken.IsSet() {
		return exit.Misuse("%s", "--listen "+c.Listen+" is reached from other machines, and whoever asks gets plain text: set codecToken (SPOOL_CODEC_TOKEN), `openssl rand -hex 24` makes one, or listen at 127.0.0.1")
	}
	e := encryption.NewEndpoint(cfg.Encryption, cfg.CodecToken.Reveal(), hostNames(c.HostName))
	e.Allow(c.Origin...)
	if len(c.Origin) == 0 {
		e.Allow(sameUI(cfg.TemporalUI)...)
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return agent.Wrap(err, agent.CodeUnavailable, "cannot listen at %s", c.Listen)
	}
	link := openURL(l.Addr())
	err = a.Show(map[string]any{"codec": link, "keys": cfg.Encryption.IDs(), "origins": e.Origins()}, func() {
		a.Print("Codec server %s", link)
		if len(e.Origins()) == 0 {
			a.Progress("no page may use it: name your Temporal UI with --origin")
		}
		for _, origin := range e.Origins() {
			a.Progress("pages of %s may use it: enter %s in the UI under Data Encoder", origin, link)
		}
		a.Progress("temporal workflow show --codec-endpoint %s … shows histories in plain text", link)
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return serveCodec(ctx, e, l)
}

func serveCodec(ctx context.Context, e *encryption.Endpoint, l net.Listener) error {
	s := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return agent.Wrap(err, agent.CodeUnavailable, "the codec server ended")
	}
	return nil
}

// devCodec is the codec endpoint of a dev stack, for its own web UI.
type devCodec struct {
	endpoint *encryption.Endpoint
	link     string
}

// startCodec starts an endpoint on loopback if anything is encrypted, and else
// returns nil. It asks for no token: the UI has none to send.
func (a *app) startCodec(ctx context.Context, cfg config.Config, port int) (*devCodec, error) {
	if !cfg.Encryption.Any() {
		return nil, nil
	}
	l, err := a.listen(devstack.Loopback, port)
	if err != nil {
		return nil, err
	}
	d := &devCodec{encryption.NewEndpoint(cfg.Encryption, "", nil), openURL(l.Addr())}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := serveCodec(ctx, d.endpoint, l); err != nil {
			a.Progress("%v", err)
		}
	}()
	a.closers = append(a.closers, func() { cancel(); <-done })
	return d, nil
}

// url is where the endpoint is, "" if there is none.
func (d *devCodec) url() string {
	if d == nil {
		return ""
	}
	return d.link
}

// allow lets the pages of a web UI use the endpoint.
func (d *devCodec) allow(ui string) {
	if d != nil {
		d.endpoint.Allow(sameUI(ui)...)
	}
}

// sameUI is the address of a web UI, with localhost and 127.0.0.1 for each other:
// people open either.
func sameUI(ui string) []string {
	u, err := url.Parse(ui)
	if err != nil || ui == "" {
		return nil
	}
	links := []string{ui}
	if host := u.Hostname(); host == "localhost" || host == devstack.Loopback {
		for _, name := range []string{"localhost", devstack.Loopback} {
			if name != host {
				links = append(links, strings.Replace(u.Scheme+"://"+u.Host, host, name, 1))
			}
		}
	}
	return links
}

func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

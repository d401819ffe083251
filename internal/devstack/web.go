package devstack

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/hosts"
)

// Loopback is the address of parts that only this machine may reach.
const Loopback = "127.0.0.1"

func (s *Stack) startWeb(ctx context.Context, port int) error {
	path, err := findProgram("starter", "spool", Lookup(s.o.Env, "PATH"))
	if err != nil {
		return err
	}
	args := []string{"web", "--json", "--parent-pipe", "--host", Loopback, "--web-port", strconv.Itoa(port)}
	if !s.o.Demo {
		args = append(args, "--model-key") // which it would not see
	}
	p, err := start(command{
		name: "web", path: path, dir: s.o.Dir, log: s.o.Log, env: append(without(harmless(s.partEnv(), "SPOOL_", "TEMPORAL_", "OTEL_", "OPENAI_", "GO"), s.o.Keys), "SPOOL_WEB_TOKEN="+s.o.WebToken), args: args,
	})
	if err != nil {
		return err
	}
	var ready struct{ Web string }
	if err := firstLine(ctx, p, "the web server", &ready); err != nil {
		p.stop(stopGrace)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		go p.stop(stopGrace)
		return nil
	}
	s.web, s.link = p, ready.Web
	return nil
}

func (s *Stack) webPort() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	link, err := url.Parse(s.link)
	if err != nil {
		return s.o.WebPort
	}
	return PortOf(link.Host)
}

// closedAPI keeps the server's HTTP API shut, which nothing here uses: it answers any
// name that leads to it, and takes orders from pages of other sites. No name ends so.
var closedAPI = []string{"--dynamic-config-value", `frontend.httpAllowedHosts=["closed.invalid"]`}

// hiddenAddress is where Temporal's own web UI listens. It answers any Host header, so
// that no page may find it: one of millions of addresses of this machine, where the
// system has them.
func hiddenAddress() string {
	hidden := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	l, err := net.Listen("tcp", net.JoinHostPort(hidden, "0"))
	if err != nil {
		return Loopback
	}
	_ = l.Close()
	return hidden
}

// serveUI answers in front of the web UI at the address hidden, by names of this
// machine only, until ctx ends.
func serveUI(ctx context.Context, log io.Writer, port int, hidden string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
	if err != nil {
		return agent.Wrap(err, agent.CodeUnavailable, "cannot open the port of Temporal's web UI")
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: hidden})
		r.Out.Host = r.In.Host
	}}
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hosts.Known(r.Host, nil) {
			http.Error(w, "this is Temporal's web UI of a local server: open it as "+l.Addr().String(), http.StatusMisdirectedRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	go func() {
		if err := s.Serve(l); err != nil && ctx.Err() == nil {
			fmt.Fprintf(log, "Temporal's web UI: %v\n", err)
		}
	}()
	return nil
}

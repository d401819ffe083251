package devstack

import (
	"context"
	"net/url"
	"strconv"
)

// Loopback is the address of parts that only this machine may reach.
const Loopback = "127.0.0.1"

// startWeb starts the web server and waits until it listens.
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

// webPort is the port that the web server got.
func (s *Stack) webPort() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	link, err := url.Parse(s.link)
	if err != nil {
		return s.o.WebPort
	}
	return PortOf(link.Host)
}

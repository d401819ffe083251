package starter

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// loopback is the address of parts that only this machine may reach.
const loopback = "127.0.0.1"

// startWeb starts the web server and waits until it listens.
func (s *stack) startWeb(ctx context.Context, port int) error {
	path, err := findProgram("starter", "spool", lookupIn(s.o.env, "PATH"))
	if err != nil {
		return err
	}
	args := []string{"web", "--json", "--parent-pipe", "--host", loopback, "--web-port", strconv.Itoa(port)}
	if !s.o.demo {
		args = append(args, "--model-key") // which it would not see
	}
	p, err := start(command{
		name: "web", path: path, dir: s.o.dir, log: s.o.log, env: append(without(s.partEnv(), s.o.keys), "SPOOL_WEB_TOKEN="+s.o.webToken), args: args,
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

// watchWeb starts the web server again when it dies, where it was.
func (s *stack) watchWeb() {
	for fails := 0; ; {
		p := s.currentWeb()
		<-p.done
		if s.isClosing() {
			return
		}
		fails = s.pause(p.name, p, fails)
		for !s.isClosing() {
			err := s.startWeb(context.Background(), s.webPort())
			if err == nil {
				s.logf("web runs again (pid %d)", s.currentWeb().pid())
				break
			}
			s.logf("web: %v; trying again", err)
			time.Sleep(time.Second)
		}
		s.tell()
	}
}

func (s *stack) currentWeb() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.web
}

// webPort is the port that the web server got.
func (s *stack) webPort() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	link, err := url.Parse(s.link)
	if err != nil {
		return s.o.webPort
	}
	return portOf(link.Host)
}

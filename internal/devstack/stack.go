// Package devstack runs a local stack: Temporal, workers and the web server, each in a
// process of its own that is started again when it dies.
package devstack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/internal/tool"
)

// Values of dev --temporal beside an address.
const (
	Embedded = "embedded"
	OnPath   = "path"
)

// stopGrace is how long a part may take to end; workers have DrainTime besides.
const stopGrace = 8 * time.Second

// Options say what to run.
type Options struct {
	Home, Store string
	// Server is Embedded, OnPath or an address, UI the web UI of that address.
	Server, UI   string
	Port, UIPort int
	Workers      int
	Web          bool // serve the page and the API in a process of its own
	WebPort      int
	WebToken     string
	Codec        string   // where the web UI has payloads decrypted, "" = they are not encrypted
	Env          []string // of the workers, without what the stack sets
	Keys         []string // variables of Env that only workers get: keys of models and tools
	Workspace    string   // where tools work, for who asks
	Demo         bool     // workers have no model but the scripted one
	DrainTime    time.Duration
	Dir          string // working directory of the workers
	Log          io.Writer
	// Changed is called after a part was replaced.
	Changed func(config.DevInfo)
}

// Stack is a Temporal server and workers, each started again when it dies.
type Stack struct {
	o       Options
	mu      sync.Mutex
	closing bool
	server  *process // nil if the server is somebody else's
	address string
	ui      string
	workers []*process
	web     *process // nil if there is none
	link    string   // of the page, with its token
	wait    sync.WaitGroup
}

// Start starts the server, waits for it, and starts the workers. Whether those work is
// for the caller to ask.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{o: o}
	if o.Server != Embedded && o.Server != OnPath {
		s.address, s.ui = o.Server, o.UI
	} else if err := s.startServer(ctx, o.Port, o.UIPort); err != nil {
		return nil, err
	}
	for i := range o.Workers {
		p, err := s.startWorker(i)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.workers = append(s.workers, p)
	}
	if o.Web {
		if err := s.startWeb(ctx, o.WebPort); err != nil {
			s.Close()
			return nil, err
		}
		s.wait.Go(func() { s.watch(&s.web, func(*process) error { return s.startWeb(context.Background(), s.webPort()) }) })
	}
	if s.server != nil {
		s.wait.Go(func() { s.watch(&s.server, s.restartServer) })
	}
	for i := range s.workers {
		s.wait.Go(func() { s.watch(&s.workers[i], func(p *process) error { return s.replaceWorker(i, p) }) })
	}
	return s, nil
}

func (s *Stack) logf(format string, args ...any) { fmt.Fprintf(s.o.Log, format+"\n", args...) }

func (s *Stack) startServer(ctx context.Context, port, uiPort int) error {
	path := Lookup(s.o.Env, "PATH")
	self, err := findProgram("starter", "spool", path)
	if err != nil {
		return err
	}
	program, err := findTemporal(s.o.Server, path)
	if err != nil {
		return err
	}
	args := []string{"temporal-server", "--program", program, "--db", filepath.Join(s.o.Home, "temporal.db"), "--port", strconv.Itoa(port), "--ui-port", strconv.Itoa(uiPort)}
	if s.o.Codec != "" {
		args = append(args, "--ui-codec-endpoint", s.o.Codec)
	}
	p, err := start(command{name: "temporal", path: self, args: args, log: s.o.Log, env: forTemporal(s.o.Env, s.o.Home), dir: s.o.Home})
	if err != nil {
		return err
	}
	var ready readyServer
	if err := firstLine(ctx, p, "the Temporal server", &ready); err != nil {
		p.stop(stopGrace)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server, s.address, s.ui = p, ready.Temporal, ready.UI
	return nil
}

// findTemporal finds Temporal's own program: on the PATH, or else beside this one first.
func findTemporal(server, searchPath string) (string, error) {
	if server == OnPath {
		if path := onPath("temporal", searchPath); path != "" {
			return filepath.Abs(path)
		}
		return "", agent.Errorf(agent.CodeInvalid, "the program temporal is not on the PATH: install it, or use --temporal embedded")
	}
	path, err := findProgram("temporal", "temporal", searchPath)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// firstLine waits for the JSON line of a server that is ready.
func firstLine(ctx context.Context, p *process, what string, into any) error {
	select {
	case line := <-p.out.first:
		if err := json.Unmarshal([]byte(line), into); err != nil {
			return fmt.Errorf("%s printed %q where its ready line was expected", what, terminal.OneLine(line, 200))
		}
		return nil
	case <-p.done:
		return agent.Errorf(agent.CodeUnavailable, "%s did not start: %s", what, p.ending())
	case <-time.After(serverReady):
		return agent.Errorf(agent.CodeUnavailable, "%s was not ready after %s", what, serverReady)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Stack) startWorker(i int) (*process, error) {
	path, err := findProgram("worker", "spool-worker", Lookup(s.o.Env, "PATH"))
	if err != nil {
		return nil, err
	}
	return start(command{name: "worker " + strconv.Itoa(i+1), path: path, args: []string{"--parent-pipe"}, env: s.partEnv(), dir: s.o.Dir, log: s.o.Log})
}

func (s *Stack) partEnv() []string {
	env := append([]string{}, s.o.Env...)
	env = append(env, "SPOOL_HOME="+s.o.Home, "SPOOL_STORE="+s.o.Store, "TEMPORAL_ADDRESS="+s.address)
	if s.o.Demo {
		env = append(env, "SPOOL_DEMO_MODEL=true")
	}
	if s.ui != "" {
		env = append(env, "SPOOL_TEMPORAL_UI="+s.ui)
	}
	if s.server != nil {
		// What is meant for another server is kept away from this one.
		env = append(env, "TEMPORAL_NAMESPACE=default", "TEMPORAL_TLS=false", "TEMPORAL_API_KEY=", "TEMPORAL_PROFILE=", "TEMPORAL_CONFIG_FILE="+os.DevNull)
		if Lookup(env, "SPOOL_HEARTBEAT_TIMEOUT") == "" {
			env = append(env, "SPOOL_HEARTBEAT_TIMEOUT=2s")
		}
	}
	return env
}

func (s *Stack) watch(part **process, again func(died *process) error) {
	for fails := 0; ; {
		p := s.current(part)
		<-p.done
		if s.isClosing() {
			return
		}
		if s.current(part) != p { // replaced
			continue
		}
		fails = s.pause(p, fails)
		for !s.isClosing() {
			err := again(p)
			if err == nil {
				s.logf("%s runs again (pid %d)", p.name, s.current(part).pid())
				break
			}
			s.logf("%s: %v; trying again", p.name, err)
			time.Sleep(time.Second)
		}
		if s.o.Changed != nil && !s.isClosing() {
			s.o.Changed(s.Info())
		}
	}
}

// restartServer starts the server where it was, and the workers with it: one that
// outlived an outage backs off for seconds.
func (s *Stack) restartServer(*process) error {
	if err := s.startServer(context.Background(), PortOf(s.address), PortOf(strings.TrimPrefix(s.ui, "http://"))); err != nil {
		return err
	}
	for i := range s.workers {
		old := s.current(&s.workers[i])
		if s.replaceWorker(i, old) == nil && s.current(&s.workers[i]) != old {
			s.wait.Go(func() { old.stop(s.o.DrainTime + stopGrace) }) // its successor works by now
		}
	}
	return nil
}

// pause says that a part died and waits a little, longer if it dies again and again.
func (s *Stack) pause(p *process, fails int) int {
	if time.Since(p.started) > 30*time.Second {
		fails = 0
	}
	delay := min(100*time.Millisecond<<min(fails, 6), 5*time.Second)
	s.logf("%s (pid %d) died (%s); starting it again", p.name, p.pid(), p.ending())
	time.Sleep(delay)
	return fails + 1
}

// replaceWorker starts a successor of p unless there is one already.
func (s *Stack) replaceWorker(i int, p *process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.workers[i] != p {
		return nil
	}
	next, err := s.startWorker(i)
	if err == nil {
		s.workers[i] = next
	}
	return err
}

func (s *Stack) current(part **process) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *part
}

// KillWorker ends the first worker as kill -9 does, and returns its pid.
func (s *Stack) KillWorker() int {
	p := s.current(&s.workers[0])
	_ = p.cmd.Process.Kill()
	return p.pid()
}

func (s *Stack) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// Info is the ready object.
func (s *Stack) Info() config.DevInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := config.DevInfo{Temporal: s.address, UI: s.ui, Codec: s.o.Codec, Web: s.link, Store: s.o.Store, Home: s.o.Home, Workspace: s.o.Workspace}
	if s.server != nil {
		info.PIDs.Temporal = s.server.pid()
	}
	if s.web != nil {
		info.PIDs.Web = s.web.pid()
	}
	info.PIDs.Workers = []int{}
	for _, p := range s.workers {
		info.PIDs.Workers = append(info.PIDs.Workers, p.pid())
	}
	return info
}

// Close stops web server and workers, then the server.
func (s *Stack) Close() {
	s.mu.Lock()
	s.closing = true
	workers, web, server := slices.Clone(s.workers), s.web, s.server
	s.mu.Unlock()
	var stopping sync.WaitGroup
	for _, p := range workers {
		stopping.Go(func() { p.stop(s.o.DrainTime + stopGrace) })
	}
	if web != nil {
		stopping.Go(func() { web.stop(stopGrace) })
	}
	stopping.Wait()
	if server != nil {
		server.stop(stopGrace)
	}
	s.wait.Wait()
}

// PortOf is the port of HOST:PORT, 0 if it has none.
func PortOf(address string) int {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port) // 0 if it is no number
	return n
}

// forTemporal is what Temporal's programs get of an environment: other programs of the
// same user can read it there. They do not work without a home directory and a name, which
// a user that the system does not know has not.
func forTemporal(env []string, home string) []string {
	return append([]string{"HOME=" + home, "USER=spool"}, harmless(env)...)
}

// harmless is what of an environment is known to hold no secret, and what begins with
// one of these.
func harmless(env []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		wanted := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		return !slices.Contains(tool.PassedOn, name) && !slices.ContainsFunc(prefixes, wanted)
	})
}

// without leaves variables out of a list: other programs of the same user can read
// what a program was started with.
func without(env, names []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

// Lookup finds a variable in a list; the last one counts.
func Lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

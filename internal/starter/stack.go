package starter

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
)

// Values of dev --temporal beside an address.
const (
	serverEmbedded = "embedded"
	serverPath     = "path"
)

const (
	stopGrace = 8 * time.Second
	// retireGrace is how long a worker that was replaced may finish its work.
	retireGrace = 30 * time.Second
)

// stackOptions say what to run.
type stackOptions struct {
	home, store  string
	server       string // embedded, path or an address
	port, uiPort int
	ui           string // of a server that is somebody else's
	workers      int
	web          bool // serve the page and the API in a process of its own
	webPort      int
	webToken     string
	codec        string   // where the web UI has payloads decrypted, "" = they are not encrypted
	env          []string // of the workers, without what the stack sets
	keys         []string // variables of env that only workers get: keys of models and tools
	demo         bool     // workers have no model but the scripted one
	dir          string   // working directory of the workers
	log          io.Writer
	// changed is called after a part was replaced.
	changed func(config.DevInfo)
}

// stack is a Temporal server and workers, each started again when it dies.
type stack struct {
	o       stackOptions
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

// startStack starts the server, waits for it, and starts the workers. Whether
// those work is for the caller to ask (see app.awaitWorkers).
func startStack(ctx context.Context, o stackOptions) (*stack, error) {
	s := &stack{o: o}
	if o.server != serverEmbedded && o.server != serverPath {
		s.address, s.ui = o.server, o.ui
	} else if err := s.startServer(ctx, o.port, o.uiPort); err != nil {
		return nil, err
	}
	for i := range o.workers {
		p, err := s.startWorker(i)
		if err != nil {
			s.close()
			return nil, err
		}
		s.workers = append(s.workers, p)
	}
	if o.web {
		if err := s.startWeb(ctx, o.webPort); err != nil {
			s.close()
			return nil, err
		}
		s.wait.Go(s.watchWeb)
	}
	if s.server != nil {
		s.wait.Go(s.watchServer)
	}
	for i := range s.workers {
		s.wait.Go(func() { s.watchWorker(i) })
	}
	return s, nil
}

func (s *stack) logf(format string, args ...any) { fmt.Fprintf(s.o.log, format+"\n", args...) }

// startServer starts Temporal and waits until it serves.
func (s *stack) startServer(ctx context.Context, port, uiPort int) error {
	path := lookupIn(s.o.env, "PATH")
	self, err := findProgram("starter", "spool", path)
	if err != nil {
		return err
	}
	program, err := findTemporal(s.o.server, path)
	if err != nil {
		return err
	}
	args := []string{"temporal-server", "--program", program, "--db", filepath.Join(s.o.home, "temporal.db"), "--port", strconv.Itoa(port), "--ui-port", strconv.Itoa(uiPort)}
	if s.o.codec != "" {
		args = append(args, "--ui-codec-endpoint", s.o.codec)
	}
	p, err := start(command{name: "temporal", path: self, args: args, log: s.o.log, env: without(s.o.env, append(config.SecretVariables(), s.o.keys...)), dir: s.o.home})
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
	if server == serverPath {
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

// startWorker starts one worker for the server's present address.
func (s *stack) startWorker(i int) (*process, error) {
	path, err := findProgram("worker", "spool-worker", lookupIn(s.o.env, "PATH"))
	if err != nil {
		return nil, err
	}
	return start(command{name: "worker " + strconv.Itoa(i+1), path: path, args: []string{"--parent-pipe"}, env: s.partEnv(), dir: s.o.dir, log: s.o.log})
}

// partEnv is the environment of workers and web server.
func (s *stack) partEnv() []string {
	env := append([]string{}, s.o.env...)
	env = append(env, "SPOOL_HOME="+s.o.home, "SPOOL_STORE="+s.o.store, "TEMPORAL_ADDRESS="+s.address)
	if s.ui != "" {
		env = append(env, "SPOOL_TEMPORAL_UI="+s.ui)
	}
	if s.server != nil {
		// What is meant for another server is kept away from this one.
		env = append(env, "TEMPORAL_NAMESPACE=default", "TEMPORAL_TLS=false", "TEMPORAL_API_KEY=", "TEMPORAL_PROFILE=", "TEMPORAL_CONFIG_FILE="+os.DevNull)
		if lookupIn(env, "SPOOL_HEARTBEAT_TIMEOUT") == "" {
			env = append(env, "SPOOL_HEARTBEAT_TIMEOUT=2s")
		}
	}
	return env
}

// watchServer starts the server again when it dies, and the workers with it: one
// that outlived an outage backs off for seconds.
func (s *stack) watchServer() {
	for fails := 0; ; {
		p := s.currentServer()
		<-p.done
		if s.isClosing() {
			return
		}
		fails = s.pause("temporal", p, fails)
		port, uiPort := portOf(s.address), portOf(strings.TrimPrefix(s.ui, "http://"))
		for !s.isClosing() {
			err := s.startServer(context.Background(), port, uiPort)
			if err == nil {
				break
			}
			s.logf("temporal: %v; trying again", err)
			time.Sleep(time.Second)
		}
		s.replaceWorkers()
		s.tell()
	}
}

// watchWorker starts a worker again when it dies.
func (s *stack) watchWorker(i int) {
	for fails := 0; ; {
		p := s.currentWorker(i)
		<-p.done
		if s.isClosing() {
			return
		}
		if s.currentWorker(i) != p { // replaced
			continue
		}
		fails = s.pause(p.name, p, fails)
		for !s.replaceWorker(i, p) {
			if s.isClosing() {
				return
			}
			time.Sleep(time.Second)
		}
		s.tell()
	}
}

// pause says that a part died and waits a little, longer if it dies again and again.
func (s *stack) pause(name string, p *process, fails int) int {
	if time.Since(p.started) > 30*time.Second {
		fails = 0
	}
	delay := min(100*time.Millisecond<<min(fails, 6), 5*time.Second)
	s.logf("%s (pid %d) died (%s); starting it again", name, p.pid(), p.ending())
	time.Sleep(delay)
	return fails + 1
}

// replaceWorker starts a successor of p unless there is one already.
func (s *stack) replaceWorker(i int, p *process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.workers[i] != p {
		return true
	}
	next, err := s.startWorker(i)
	if err != nil {
		s.logf("%s: %v; trying again", p.name, err)
		return false
	}
	s.workers[i] = next
	s.logf("%s runs again (pid %d)", next.name, next.pid())
	return true
}

// replaceWorkers starts successors first, then lets the old ones finish.
func (s *stack) replaceWorkers() {
	for i := range s.o.workers {
		old := s.currentWorker(i)
		if s.replaceWorker(i, old) && s.currentWorker(i) != old {
			s.wait.Go(func() { old.stop(retireGrace) })
		}
	}
}

func (s *stack) currentServer() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

func (s *stack) currentWorker(i int) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[i]
}

func (s *stack) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

func (s *stack) tell() {
	if s.o.changed != nil && !s.isClosing() {
		s.o.changed(s.info())
	}
}

// info is the ready object.
func (s *stack) info() config.DevInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := config.DevInfo{Temporal: s.address, UI: s.ui, Codec: s.o.codec, Web: s.link, Store: s.o.store, Home: s.o.home}
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

// close stops web server and workers, then the server.
func (s *stack) close() {
	s.mu.Lock()
	s.closing = true
	parts, server := append([]*process{}, s.workers...), s.server
	if s.web != nil {
		parts = append(parts, s.web)
	}
	s.mu.Unlock()
	var stopping sync.WaitGroup
	for _, p := range parts {
		stopping.Go(func() { p.stop(stopGrace) })
	}
	stopping.Wait()
	if server != nil {
		server.stop(stopGrace)
	}
	s.wait.Wait()
}

func portOf(address string) int {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}

// without leaves variables out of a list: other programs of the same user can read
// what a program was started with.
func without(env, names []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

// lookupIn finds a variable in a list; the last one counts.
func lookupIn(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

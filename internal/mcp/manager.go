// Package mcp gives agents the tools of MCP servers.
//
// Servers stand in mcpServers JSON, as other programs have it: .mcp.json of the
// workspace, which starts nothing before a person agreed to its content, and
// mcp.json of the home directory. A Manager keeps one session with each, opens
// it again when it died, and follows changes of files and of lists of tools.
// Whatever a server does wrong is a result for the model, never a failed turn.
//
// Servers over stdio run under package supervise, so none outlives its worker.
package mcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/trust"
)

const (
	// lookEvery is how often the files are looked at.
	lookEvery = time.Second
	// readyWithin is how long a worker's start waits for its servers: later ones
	// join when they answer.
	readyWithin = 10 * time.Second
)

// Options say where servers are configured.
type Options struct {
	// Servers is JSON as .mcp.json has it, of the program itself: nobody has to agree to
	// it, and it comes before the files.
	Servers []byte
	// Workspace holds the project's .mcp.json and is where its servers start; "" = there is
	// no such file.
	Workspace string
	// Home holds mcp.json, and what people agreed to; "" = there is neither.
	Home string
	// Env looks up the environment; nil = os.Getenv.
	Env func(string) string
	// Log gets what servers do and cannot; nil = the default log.
	Log *slog.Logger
}

// Files reads the program's servers and both files, the project's first. That of home, too,
// waits for a person: what an agent was allowed to run could have written it. Its servers
// start in a folder of their own, as npx, python and the like run what they find where they
// are started.
func (o Options) Files() (files []File) {
	book := trust.Open(o.Home)
	if len(o.Servers) > 0 {
		f := File{Offer: trust.Offer{File: trust.File{Name: "the program", Raw: o.Servers}, Agreed: true}}
		f.read(o.Workspace, "", o.Env)
		files = append(files, f)
	}
	if o.Workspace != "" {
		files = append(files, readFile(book, o.Workspace, ".mcp.json", o.Workspace, "", o.Env))
	}
	if o.Home != "" {
		files = append(files, readFile(book, o.Home, "mcp.json", o.Workspace, filepath.Join(o.Home, "mcp"), o.Env))
	}
	return files
}

// Tools are tools with those of the servers, which run from start to stop.
func Tools(o Options, own ...agent.Tool) (all *tool.Live, start func(context.Context) (stop func()), err error) {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	if len(o.Servers) > 0 {
		f := o.Files()[0]
		problem := f.Problem
		for _, c := range f.Servers {
			if c.Problem != "" {
				problem = cmp.Or(problem, "server "+c.ID+": "+c.Problem)
			}
		}
		if problem != "" {
			return nil, nil, agent.Errorf(agent.CodeInvalid, "the MCP servers of the program: %s", problem)
		}
	}
	var m *Manager
	if all, err = tool.NewLive(func(name string) (agent.Tool, bool) { return m.Pending(name) }, own...); err != nil {
		return nil, nil, err
	}
	m = New(o, func(more []agent.Tool) error { return all.Set(more...) })
	return all, m.Start, nil
}

// Manager keeps the servers of a worker. Its methods are safe for concurrent use.
type Manager struct {
	o       Options
	publish func([]agent.Tool) error

	mu      sync.Mutex
	servers map[string]*server // by id
	waiting map[string]string  // servers that wait for a person's agreement: the file, by serverName
	told    map[string]string  // what was logged last of each file
	tools   map[string]agent.Tool
	seq     sync.Mutex // one publish at a time
	ended   sync.WaitGroup
}

// New makes a manager. publish gets all tools of all servers, sorted by name,
// whenever they change.
func New(o Options, publish func([]agent.Tool) error) *Manager {
	return &Manager{
		o: o, publish: publish, servers: map[string]*server{}, waiting: map[string]string{}, told: map[string]string{}, tools: map[string]agent.Tool{},
	}
}

// Start starts the servers, waits a little for them, and follows the files until
// ctx ends or stop is called, which returns when all servers have ended.
func (m *Manager) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	seen := m.stamp() // before the files are read
	m.reload(ctx)
	m.ready(ctx)
	m.ended.Go(func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if now := m.stamp(); now != seen {
					seen = now
					m.reload(ctx)
				}
			}
		}
	})
	return func() {
		cancel()
		m.ended.Wait()
		m.mu.Lock()
		servers := m.servers
		m.servers = map[string]*server{}
		m.mu.Unlock()
		closeAll(servers)
	}
}

func closeAll(servers map[string]*server) {
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(s.close)
	}
	wg.Wait()
}

// stamp changes when one of the files may have.
func (m *Manager) stamp() string {
	stamp := ""
	for _, path := range []string{filepath.Join(m.o.Workspace, ".mcp.json"), filepath.Join(m.o.Home, "mcp.json"), trust.Path(m.o.Home)} {
		if info, err := os.Stat(path); err == nil {
			stamp += fmt.Sprintf("%d %d;", info.ModTime().UnixNano(), info.Size())
		}
		stamp += ";"
	}
	return stamp
}

// wanted are the servers of the files by id; of two with one id the first wins.
// Those that wait for an agreement are apart; one that cannot be used has nothing to agree to.
func wanted(files []File) (servers map[string]ServerConfig, waiting map[string]string) {
	servers, waiting = map[string]ServerConfig{}, map[string]string{}
	for _, f := range files {
		for _, c := range f.Servers {
			if _, taken := servers[c.ID]; taken || waiting[serverName(c.ID)] != "" {
				continue
			}
			if !f.Agreed && c.Problem == "" {
				waiting[serverName(c.ID)] = c.File
				continue
			}
			servers[c.ID] = c
		}
	}
	return servers, waiting
}

func (m *Manager) reload(ctx context.Context) {
	files := m.o.Files()
	want, waiting := wanted(files)
	m.mu.Lock()
	m.waiting = waiting
	m.tell(files)
	gone := map[string]*server{}
	for name, s := range m.servers {
		if c, ok := want[name]; !ok || !reflect.DeepEqual(c, s.cfg) {
			s.give()
			gone[name] = s
			delete(m.servers, name)
		}
	}
	for name, c := range want {
		if m.servers[name] != nil {
			continue
		}
		s := newServer(c, m.o.Env, m.o.Log, m.republish)
		ctx, give := context.WithCancel(ctx)
		m.servers[name], s.give = s, give
		m.ended.Go(func() {
			if c.Problem != "" {
				s.log.Warn("MCP server cannot be used", "file", c.File, "problem", c.Problem)
				return
			}
			s.run(ctx)
		})
	}
	m.mu.Unlock()
	closeAll(gone)
	m.republish()
}

// tell says once what waits and what cannot be read. m.mu is held.
func (m *Manager) tell(files []File) {
	for _, f := range files {
		text := ""
		switch {
		case f.Problem != "":
			text = f.Path() + " " + f.Problem
		case !f.Agreed && len(f.Allows) > 0:
			text = fmt.Sprintf("%s names %d MCP servers, which start only when a person has agreed to the file: %s shows what they may do and asks", f.Path(), len(f.Servers), trust.Command(f.Folder))
		}
		if text != m.told[f.Path()] && text != "" {
			m.o.Log.Warn(text)
		}
		m.told[f.Path()] = text
	}
}

// ready waits until each server has answered or failed once.
func (m *Manager) ready(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	var wg sync.WaitGroup
	m.mu.Lock()
	for _, s := range m.servers {
		wg.Go(func() { _, _ = s.open(ctx) })
	}
	m.mu.Unlock()
	wg.Wait()
	m.republish()
}

func (m *Manager) republish() {
	m.seq.Lock()
	defer m.seq.Unlock()
	list := m.current()
	if err := m.publish(list); err != nil {
		m.o.Log.Error("the tools of the MCP servers cannot be offered", "error", err)
	}
}

func (m *Manager) current() []agent.Tool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var origins []origin
	found := map[origin]*sdk.Tool{}
	owner := map[origin]*server{}
	for _, s := range m.servers {
		s.mu.Lock()
		for _, t := range s.tools {
			o := origin{s.cfg.ID, t.Name}
			origins, found[o], owner[o] = append(origins, o), t, s
		}
		s.mu.Unlock()
	}
	names := nameAll(origins)
	slices.SortFunc(origins, func(a, b origin) int { return strings.Compare(names[a], names[b]) })
	var list []agent.Tool
	clear(m.tools)
	for _, o := range origins {
		t := newTool(owner[o], found[o], names[o])
		m.tools[names[o]] = t
		list = append(list, t)
	}
	return list
}

// Pending is the stand-in for a tool of a server that is configured and has not
// listed its tools, or that waits for a person's agreement.
func (m *Manager) Pending(name string) (agent.Tool, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, file := m.expected(name)
	cfg := ServerConfig{Start: defaultStart, Call: defaultCall}
	if s != nil {
		cfg = s.cfg
	}
	return standIn{m, name, cfg}, s != nil || file != ""
}

// expected is the server that a tool's name points to, if it has not listed its
// tools, or the file that a person has to agree to. m.mu is held.
func (m *Manager) expected(name string) (*server, string) {
	part := serverOf(name)
	if part == "" {
		return nil, ""
	}
	for id, s := range m.servers {
		if serverName(id) != part {
			continue
		}
		s.mu.Lock()
		listed := s.listed
		s.mu.Unlock()
		if !listed {
			return s, ""
		}
	}
	return nil, m.waiting[part]
}

// await waits until a server has listed its tools and returns the one named, or
// a result that says why there is none.
func (m *Manager) await(ctx context.Context, name string) (agent.Tool, agent.ToolResult) {
	m.mu.Lock()
	s, file := m.expected(name)
	m.mu.Unlock()
	if s == nil && file != "" {
		return nil, agent.ToolFailed(agent.ErrPermissionDenied, "The MCP server %s of %s is not started before a person has agreed to that file (`starter trust`). Tell the user.", serverOf(name), file)
	}
	if s != nil {
		if _, err := s.open(ctx); err != nil {
			return nil, cannotReach(s, err)
		}
		m.republish()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.tools[name]; ok {
		return t, agent.ToolResult{}
	}
	return nil, agent.ToolFailed(agent.ErrToolNotFound, "There is no tool %q.", name)
}

package template

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/trust"
)

// Live is a catalog that follows its files: it is read again when a file in its
// folders has come, gone or changed, or was agreed to. It is safe for concurrent use.
type Live struct {
	in    Folders
	extra []string
	warn  func(Warning)
	route func(model, provider string) error

	mu    sync.Mutex
	now   *Catalog
	state string
	told  map[string]bool
}

// NewLive reads the templates as Load does. warn hears of each problem once, also
// of those that come with a later change; of those that Unrouted finds too, unless
// route is nil.
func NewLive(in Folders, route func(model, provider string) error, warn func(Warning), extraTools ...string) *Live {
	l := &Live{in: in, extra: extraTools, warn: warn, route: route, told: map[string]bool{}}
	l.catalog()
	return l
}

// Get returns a template as its file is now.
func (l *Live) Get(name string) (agent.SpecialistAgentConfig, bool) { return l.catalog().Get(name) }

// List returns all templates as their files are now.
func (l *Live) List() []agent.SpecialistAgentConfig { return l.catalog().List() }

// Folders are those that are looked through, besides what is built in.
func (l *Live) Folders() []string { return l.catalog().Folders() }

func (l *Live) catalog() *Catalog {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.in.fingerprint() // before the files are read: a change in between is seen next time
	if l.now != nil && state == l.state {
		return l.now
	}
	found, warnings := Load(l.in, l.extra...)
	l.now, l.state = found, state
	if l.route != nil {
		warnings = append(warnings, found.Unrouted(l.route)...)
	}
	for _, w := range warnings {
		if text := w.String(); !l.told[text] {
			l.told[text] = true
			l.warn(w)
		}
	}
	return found
}

// fingerprint changes with the names, sizes and times of the files, and with what a
// person has agreed to.
func (in Folders) fingerprint() string {
	var b strings.Builder
	if info, err := os.Stat(trust.Path(in.Home)); err == nil {
		fmt.Fprintln(&b, info.Size(), info.ModTime().UnixNano())
	}
	b.WriteString(in.fingerprintOfNotes())
	for _, f := range in.list() {
		dir := f.dir
		files, done := f.files()
		walk(files, func(name string, _ fs.DirEntry, err error) {
			info, serr := os.Stat(dir + string(os.PathSeparator) + name) // of what a link leads to
			if err != nil || serr != nil {
				fmt.Fprintf(&b, "%s/%s: %v %v\n", dir, name, err, serr)
				return
			}
			fmt.Fprintf(&b, "%s/%s %d %d\n", dir, name, info.Size(), info.ModTime().UnixNano())
		})
		done()
	}
	return b.String()
}

// InCode is the Source of agents that a program brings.
const InCode = "in code"

// Agents are those of a worker.
type Agents interface {
	Get(name string) (agent.SpecialistAgentConfig, bool)
	List() []agent.SpecialistAgentConfig
}

// With is a catalog with agents in code, which come before those of the same name.
func With(catalog Agents, own []agent.SpecialistAgentConfig) (Agents, error) {
	if len(own) == 0 {
		return catalog, nil
	}
	all := withOwn{catalog, map[string]agent.SpecialistAgentConfig{}}
	for _, c := range own {
		if err := agent.CheckAgentType(c.Name); err != nil {
			return nil, err
		}
		problem := ""
		if strings.TrimSpace(c.SystemPrompt) == "" {
			problem = "it has no SystemPrompt"
		}
		if _, double := all.own[c.Name]; double {
			problem = "there are two of this name"
		}
		for rule, gate := range c.Approval {
			if p := tool.CheckRule(rule, gate); p != "" {
				problem = p
			}
		}
		if c.OnDeny != "" && c.OnDeny != agent.OnDenyEnd && c.OnDeny != agent.OnDenyContinue {
			problem = "OnDeny is " + c.OnDeny + ": use " + agent.OnDenyEnd + " or " + agent.OnDenyContinue
		}
		if problem != "" {
			return nil, agent.Errorf(agent.CodeInvalid, "agent %s in code: %s", c.Name, problem)
		}
		c.Source = InCode
		all.own[c.Name] = c.Clone()
	}
	return all, nil
}

type withOwn struct {
	Agents
	own map[string]agent.SpecialistAgentConfig
}

func (a withOwn) Get(name string) (agent.SpecialistAgentConfig, bool) {
	if c, ok := a.own[name]; ok {
		return c.Clone(), true
	}
	return a.Agents.Get(name)
}

func (a withOwn) List() []agent.SpecialistAgentConfig {
	list := slices.DeleteFunc(a.Agents.List(), func(c agent.SpecialistAgentConfig) bool { _, ok := a.own[c.Name]; return ok })
	for _, c := range a.own {
		list = append(list, c.Clone())
	}
	slices.SortFunc(list, func(a, b agent.SpecialistAgentConfig) int { return strings.Compare(a.Name, b.Name) })
	return list
}

package starter

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/memory"
)

type agentsCmd struct{}

// Run lists agents as a worker started here would load them.
func (agentsCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	catalog, warnings := template.Load(cfg.Workspace, cfg.Home)
	for _, w := range warnings {
		a.progress("%s", clean(w.String()))
	}
	list := []agentInfo{}
	for _, c := range catalog.List() {
		enabled, mentioned := cfg.Delegation.EnabledAgents[c.Name]
		list = append(list, agentInfo{AgentConfig: c, Hides: catalog.Hides(c.Name), Disabled: mentioned && !enabled})
	}
	if a.json {
		return a.printJSON(map[string]any{"agents": list, "warnings": append([]template.Warning{}, warnings...)})
	}
	for _, c := range list {
		name := c.Name
		if c.Disabled {
			name += " (disabled)"
		}
		a.print("%-20s %-12s %s", name, oneLine(c.Source, 80), oneLine(c.Description, 90))
		for _, hidden := range c.Hides {
			a.print("%-20s instead of %s", "", oneLine(hidden, 100))
		}
	}
	return nil
}

// warnOfAgent says that an agent is not known here. The worker decides: its
// templates may be others.
func (a *app) warnOfAgent(cfg config.Config, name string) {
	if name == "" {
		return
	}
	catalog, _ := template.Load(cfg.Workspace, cfg.Home) // agents prints the warnings
	if _, ok := catalog.Get(name); !ok {
		a.progress("warning: there is no agent %s here (%s agents lists them); the worker decides, and without it the orchestrator answers and says so", name, a.name)
	}
}

// agentInfo is an agent as printed.
type agentInfo struct {
	agent.AgentConfig
	// Hides are the templates of the same name that it takes the place of.
	Hides []string `json:"hides,omitempty"`
	// Disabled agents get no tasks.
	Disabled bool `json:"disabled,omitempty"`
}

type toolsCmd struct{}

// toolInfo is a tool as printed.
type toolInfo struct {
	Name        string `json:"name"`
	ReadOnly    bool   `json:"readOnly"`
	Repeatable  bool   `json:"repeatable"`
	TimeoutMs   int64  `json:"timeoutMs"`
	Description string `json:"description"`
}

// Run lists the built-in tools and those of delegation.
func (toolsCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	list := []toolInfo{}
	catalog, _ := template.Load(cfg.Workspace, cfg.Home)
	specs := []agent.ToolSpec{agent.AssignTaskSpec(catalog.List()), agent.TaskOutputSpec()}
	for _, t := range tool.Builtin(tool.Options{TavilyKey: cfg.TavilyKey.Reveal(), AllowPrivate: cfg.WebFetchPrivate}) {
		specs = append(specs, t.Spec())
	}
	slices.SortFunc(specs, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range specs {
		timeout := s.Timeout
		if timeout <= 0 {
			timeout = agent.DefaultToolTimeout
		}
		list = append(list, toolInfo{s.Name, s.ReadOnly, s.Repeatable, timeout.Milliseconds(), s.Description})
	}
	if a.json {
		return a.printJSON(map[string]any{"tools": list})
	}
	for _, t := range list {
		var marks []string
		if t.ReadOnly {
			marks = append(marks, "read-only")
		}
		if t.Repeatable {
			marks = append(marks, "repeatable")
		}
		a.print("%-12s %-22s %s", t.Name, strings.Join(marks, ", "), oneLine(t.Description, 100))
	}
	if !cfg.TavilyKey.IsSet() {
		a.progress("web_search needs TAVILY_API_KEY in the worker's environment")
	}
	return nil
}

type modelsCmd struct{}

// Run says which model a worker with these settings would use.
func (modelsCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	model, provider := cfg.Model, cfg.OpenAIBaseURL
	switch {
	case cfg.Demo():
		model, provider = "demo", "built in (scripted)"
	case provider == "":
		provider = "https://api.openai.com/v1"
	}
	if a.json {
		return a.printJSON(map[string]any{"models": []map[string]any{{"model": model, "provider": provider, "default": true, "demo": cfg.Demo()}}})
	}
	a.print("%s  %s", clean(model), clean(provider))
	if cfg.Demo() {
		a.progress("this is the scripted demo model; set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) in the worker's environment for a real one")
	}
	return nil
}

type doctorCmd struct{}

// check is one finding of doctor.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Run prints settings and checks; it fails if store or Temporal cannot be reached.
func (doctorCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	checks, reached := a.examine(ctx, cfg)
	if a.json {
		if err := a.printJSON(map[string]any{"settings": cfg.Explain(), "checks": checks}); err != nil {
			return err
		}
	} else {
		for _, s := range cfg.Explain() {
			a.print("%-20s %-50s %s", s.Name, clean(s.Value), s.Source)
		}
		a.print("")
		for _, c := range checks {
			mark := "ok"
			if !c.OK {
				mark = "NOT OK"
			}
			a.print("%-20s %-6s %s", c.Name, mark, clean(c.Detail))
		}
	}
	if !reached {
		return ended(exitAway)
	}
	for _, c := range checks {
		if !c.OK {
			return ended(exitFailed)
		}
	}
	return nil
}

// examine checks the parts; reached is false if store or Temporal is away.
func (a *app) examine(ctx context.Context, cfg config.Config) (checks []check, reached bool) {
	c, err := a.openWith(ctx, cfg, true)
	if err != nil {
		return []check{{"store", false, err.Error()}}, false
	}
	if _, err := c.Store().Threads(ctx, memory.ThreadFilter{Limit: 1}); err != nil {
		return []check{{"store", false, err.Error()}}, false
	}
	checks = append(checks, check{"store", true, config.MaskURL(cfg.Store) + " (id " + c.Store().ID() + ")"})
	if !c.Connected() {
		return append(checks, check{"temporal", false, "no server answers at " + cfg.Temporal.HostPort + "; " + a.name + " dev starts a local one"}), false
	}
	checks = append(checks, check{"temporal", true, cfg.Temporal.HostPort + ", namespace " + cfg.Temporal.Namespace})
	if n := c.Workers(ctx); n > 0 {
		checks = append(checks, check{"workers", true, plural(n, "worker") + " on task queue " + c.TaskQueue()})
	} else {
		checks = append(checks, check{"workers", false, "nobody polls task queue " + c.TaskQueue() + "; " + a.name + " dev starts a worker"})
		if own := agent.TaskQueue(c.Store().ID()); own != c.TaskQueue() {
			checks = append(checks, check{"taskQueue", false, "SPOOL_TASK_QUEUE is " + c.TaskQueue() + ", but this store's own queue is " + own +
				", polled by " + plural(c.WorkersOf(ctx, own), "worker") + ": unset it, or start workers with it"})
		}
	}
	_, warnings := template.Load(cfg.Workspace, cfg.Home)
	for _, w := range warnings {
		checks = append(checks, check{"agents", false, w.String()})
	}
	if cfg.Demo() {
		checks = append(checks, check{"model", true, "the scripted demo model, for workers started with these settings"})
	} else {
		checks = append(checks, check{"model", true, cfg.Model})
	}
	return checks, true
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

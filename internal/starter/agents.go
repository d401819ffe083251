package starter

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/template"
)

type agentsCmd struct{}

// Run lists agents as a worker started here would load them.
func (agentsCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	catalog, warnings := a.templates(cfg)
	for _, w := range warnings {
		a.progress("%s", clean(w.String()))
	}
	list := []agentInfo{}
	for _, c := range catalog.List() {
		enabled, mentioned := cfg.Delegation.EnabledAgents[c.Name]
		list = append(list, agentInfo{SpecialistAgentConfig: c, Hides: catalog.Hides(c.Name), Disabled: mentioned && !enabled})
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
	if name == "" || cfg.Server != "" { // the server knows others
		return
	}
	catalog, _ := template.Load(cfg.Workspace, cfg.Home) // agents prints the warnings
	if _, ok := catalog.Get(name); !ok {
		a.progress("warning: there is no agent %s here (%s agents lists them); the worker decides, and if it knows none either, the turn fails", name, a.name)
	}
}

// agentInfo is an agent as printed.
type agentInfo struct {
	agent.SpecialistAgentConfig
	// Hides are the templates of the same name that it takes the place of.
	Hides []string `json:"hides,omitempty"`
	// Disabled agents get no tasks.
	Disabled bool `json:"disabled,omitempty"`
}

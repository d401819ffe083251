package starter

import (
	"context"
	"strconv"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/mcp"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/memory"
)

type doctorCmd struct{}

// check is one finding of doctor.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// ToDo is what mends it, empty if nothing has to be.
	ToDo string `json:"todo,omitempty"`
}

// Run prints settings and checks. It fails if something needed does not work.
func (doctorCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	checks, reached := a.examine(ctx, cfg)
	checks = append(checks, a.examineAgents(cfg)...)
	checks = append(checks, examineModels(ctx, cfg)...)
	checks = append(checks, a.examineTools(ctx, cfg)...)
	checks = append(checks, examineTelemetry(ctx, a.lookup))
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
			a.print("%-20s %-6s %s", clean(c.Name), mark, clean(c.Detail))
			if c.ToDo != "" {
				a.print("%-20s %-6s to do: %s", "", "", clean(c.ToDo))
			}
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

// examine checks the parts that turns run on; reached is false if store or
// Temporal is away.
func (a *app) examine(ctx context.Context, cfg config.Config) (checks []check, reached bool) {
	if err := existing(cfg); err != nil {
		return []check{{"store", false, err.Error(), "send, chat or dev makes it; or name another one (SPOOL_STORE, " + sourceOf(cfg, config.Store) + ")"}}, false
	}
	c, err := a.openWith(ctx, cfg, true)
	if err == nil {
		_, err = c.Store().Threads(ctx, memory.ThreadFilter{Limit: 1})
	}
	if err != nil {
		return []check{{"store", false, err.Error(), "see to the store, or name another one (SPOOL_STORE, " + sourceOf(cfg, config.Store) + ")"}}, false
	}
	checks = append(checks, check{"store", true, agent.MaskURL(cfg.Store) + " (id " + c.Store().ID() + ")", ""})
	if !c.Connected() {
		return append(checks, check{"temporal", false, "no server answers at " + cfg.Temporal.HostPort,
			a.name + " dev starts a local one; TEMPORAL_ADDRESS (" + sourceOf(cfg, config.TemporalAddress) + ") names another"}), false
	}
	checks = append(checks, check{"temporal", true, cfg.Temporal.HostPort + ", namespace " + cfg.Temporal.Namespace, ""})
	if cfg.Encryption.Any() {
		checks = append(checks, check{"encryption", true, "key " + cfg.Encryption.String(), ""})
	}
	if n := c.Workers(ctx); n > 0 {
		return append(checks, check{"workers", true, plural(n, "worker") + " on task queue " + c.TaskQueue(), ""}), true
	}
	checks = append(checks, check{"workers", false, "nobody polls task queue " + c.TaskQueue(), a.name + " dev starts a worker"})
	if own := agent.TaskQueue(c.Store().ID()); own != c.TaskQueue() {
		checks = append(checks, check{"taskQueue", false, "SPOOL_TASK_QUEUE is " + c.TaskQueue() + ", but this store's own queue is " + own +
			", polled by " + plural(c.WorkersOf(ctx, own), "worker"), "unset it, or start workers with it"})
	}
	return checks, true
}

// examineAgents tells what is wrong in the templates, which are used as far as
// they can be read.
func (a *app) examineAgents(cfg config.Config) []check {
	catalog, warnings := template.Load(cfg.Workspace, cfg.Home)
	checks := []check{}
	for _, w := range warnings {
		checks = append(checks, check{"agents", false, w.String(), "mend the file; " + a.name + " agents shows what is loaded"})
	}
	if len(checks) == 0 {
		checks = append(checks, check{"agents", true, plural(len(catalog.List()), "agent"), ""})
	}
	return checks
}

func examineModels(ctx context.Context, cfg config.Config) []check {
	var checks []check
	for _, m := range probeModels(ctx, cfg) {
		c := check{"model", m.Answers, m.Model + " at " + m.Provider + " answers", ""}
		switch {
		case m.Demo:
			c.Detail = "the scripted demo model, for workers started with these settings"
		case !m.Answers:
			c.Detail, c.ToDo = m.Model+" at "+m.Provider+" ("+m.Source+") does not answer: "+m.Problem, m.ToDo
		}
		checks = append(checks, c)
	}
	return checks
}

// examineTools tells which tools there are and whether MCP servers answer.
func (a *app) examineTools(ctx context.Context, cfg config.Config) []check {
	checks := []check{{"tools", true, plural(len(builtinTools(cfg)), "tool") + " built in", ""}}
	files, servers := mcp.Probe(ctx, a.mcpOptions(cfg))
	for _, f := range files {
		if f.Problem != "" {
			checks = append(checks, check{"mcp", false, f.Path + " " + f.Problem, "mend the file"})
		}
	}
	for _, s := range servers {
		c := check{"mcp", true, "server " + s.ID + " answers: " + plural(len(s.Tools), "tool"), ""}
		switch s.State {
		case mcp.StateFailed:
			c.OK, c.Detail, c.ToDo = false, "server "+s.ID+" of "+s.File+": "+s.Problem, "mend its entry, or add \"disabled\": true to it"
		case mcp.StateWaiting:
			c.Detail, c.ToDo = "server "+s.ID+" of "+s.File+" is not started: nobody has agreed to the file", a.name+" tools shows what it runs, "+a.name+" tools --trust agrees"
		}
		checks = append(checks, c)
	}
	return checks
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

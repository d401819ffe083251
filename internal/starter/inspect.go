package starter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/doctor"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/remote"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// doctor examines what these settings name.
func (a *app) doctor(cfg config.Config) *doctor.Doctor {
	return &doctor.Doctor{
		Config: cfg, Env: a.lookup, Program: a.Name,
		Open: func(ctx context.Context) (memory.ConversationMemoryStore, error) {
			c, err := a.openExisting(ctx, cfg, false)
			if err != nil {
				return nil, err
			}
			return c.Store(), nil
		},
		Dial: func(ctx context.Context) (client.Client, error) {
			c, err := dial(ctx, cfg.Temporal)
			if err == nil {
				a.closers = append(a.closers, c.Close)
			}
			return c, err
		},
		Client: func(s memory.ConversationMemoryStore, c client.Client) *spool.Client {
			return spool.NewClient(s, c, clientOptions(cfg))
		},
	}
}

type agentsCmd struct {
	Running bool `help:"List the sub-agents that are at work, wait, or are about to begin."`
}

type agentInfo struct {
	agent.SpecialistAgentConfig
	// Hides are the templates of the same name that it takes the place of.
	Hides []string `json:"hides,omitempty"`
	// Disabled agents get no tasks.
	Disabled bool `json:"disabled,omitempty"`
}

func (c *agentsCmd) Run(ctx context.Context, a *app) error {
	if c.Running {
		return a.running(ctx)
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	catalog, warnings := a.doctor(cfg).Templates()
	for _, w := range warnings {
		a.Progress("%s", terminal.Visible(w.String()))
	}
	list := []agentInfo{}
	for _, c := range catalog.List() {
		enabled, mentioned := cfg.Delegation.EnabledAgents[c.Name]
		list = append(list, agentInfo{SpecialistAgentConfig: c, Hides: catalog.Hides(c.Name), Disabled: mentioned && !enabled})
	}
	return a.Show(map[string]any{"agents": list, "notes": catalog.Notes(), "warnings": append([]template.Warning{}, warnings...)}, func() {
		if n := catalog.Notes(); n != nil {
			defer a.Print("all of them are told what %s says (%d bytes)", terminal.Visible(n.File), n.Bytes)
		}
		table := &printer.Table{Columns: []printer.Column{{Name: "AGENT"}, {Name: "FROM", Min: 12, Drop: 1}, {Name: "WHAT IT DOES", Min: 20}}}
		for _, c := range list {
			name := c.Name
			if c.Disabled {
				name += " (disabled)"
			}
			var below []string
			for _, hidden := range c.Hides {
				below = append(below, "instead of "+terminal.Visible(hidden))
			}
			table.Add([]string{name, terminal.Visible(c.Source), c.Description}, below...)
		}
		a.Table(table)
	})
}

// mostRunning bounds the sub-agents that are listed.
const mostRunning = 1000

func (a *app) running(ctx context.Context) error {
	client, _, err := a.threads(ctx, false)
	if err != nil {
		return err
	}
	list, _, err := client.ThreadPage(ctx, memory.ThreadFilter{SubAgents: true, Working: true}, "", mostRunning)
	if err != nil {
		return err
	}
	return a.Show(map[string]any{"running": list}, func() {
		if len(list) == 0 {
			a.Progress("no sub-agent is at work")
		}
		table := &printer.Table{Columns: []printer.Column{{Name: "ID"}, {Name: "AGENT", Min: 8}, {Name: "STATUS", Min: 12}, {Name: "OF", Min: 12}, {Name: "TASK", Min: 20, Drop: 1}}}
		for _, t := range list {
			table.Add([]string{a.ID(t.ID), t.AgentType, printer.Status(t), a.ID(t.RootThreadID), t.Topic})
		}
		a.Table(table)
	})
}

type toolsCmd struct{}

// Run lists the tools a worker with these settings would offer. MCP servers are
// started to ask them; one that does not answer makes the command fail.
func (toolsCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	found := a.doctor(cfg).Tools(ctx)
	return failed(a.Show(found, func() { found.Print(a.Printer) }), found.Failed())
}

// failed is the end of a command that has printed what it found.
func failed(err error, failed bool) error {
	if err == nil && failed {
		return exit.With(exit.Failed)
	}
	return err
}

type modelsCmd struct{}

// Run asks each model that a worker with these settings would use for a word.
func (modelsCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	found := a.doctor(cfg).Models(ctx)
	found.Workers = a.doctor(cfg).Running(ctx)
	return failed(a.Show(found, func() { found.Print(a.Printer) }), found.Failed())
}

type doctorCmd struct {
	Only []string `sep:"," placeholder:"PART,…" help:"Check only these: store, temporal, workers, worker (that one of this machine serves; both need store and temporal), agents, models, tools, telemetry. A health check asks for worker: it starts no MCP server and asks no model."`
}

func (d *doctorCmd) Validate() error {
	for _, part := range d.Only {
		if !slices.Contains(doctor.Parts, part) {
			return fmt.Errorf("--only %q is not valid: use some of %s, separated by commas", part, strings.Join(doctor.Parts, ", "))
		}
	}
	return nil
}

// Run prints settings and checks. It fails if something needed does not work.
func (d *doctorCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	var checks []doctor.Check
	var reached bool
	if cfg.Server != "" {
		if len(d.Only) > 0 {
			return exit.Misuse("--only is for where the parts are: leave it out with --server (SPOOL_SERVER), of which doctor checks whether it answers")
		}
		if err := a.onlyServer("SPOOL_SERVER, from " + cfg.Source(config.Server)); err != nil {
			return err
		}
		checks, reached = examineServer(ctx, cfg)
	} else {
		checks, reached = a.doctor(cfg).Examine(ctx, d.Only)
	}
	err = a.Show(map[string]any{"settings": cfg.Explain(), "checks": checks}, func() {
		if len(d.Only) == 0 {
			for _, s := range cfg.Explain() {
				a.Print("%-20s %-50s %s", s.Name, terminal.Visible(s.Value), terminal.Visible(s.Source))
			}
			a.Print("")
		}
		for _, c := range checks {
			mark := "ok"
			if !c.OK {
				mark = "NOT OK"
			}
			a.Print("%-20s %-6s %s", terminal.Visible(c.Name), mark, terminal.Visible(c.Detail))
			if c.ToDo != "" {
				a.Print("%-20s %-6s to do: %s", "", "", terminal.Visible(c.ToDo))
			}
		}
	})
	if err == nil && !reached {
		return exit.With(exit.Unavailable)
	}
	return failed(err, slices.ContainsFunc(checks, func(c doctor.Check) bool { return !c.OK }))
}

// examineServer checks the web server that takes the place of store and Temporal:
// models, tools and agents are those of its workers.
func examineServer(ctx context.Context, cfg config.Config) (checks []doctor.Check, reached bool) {
	c, err := remote.New(cfg.Server, cfg.ServerToken.Reveal())
	if err == nil {
		_, _, err = c.ThreadPage(ctx, memory.ThreadFilter{}, "", 1)
	}
	found := doctor.Check{Name: "server", OK: err == nil, Detail: agent.MaskURL(cfg.Server) + " answers; run doctor there to check its workers"}
	if err != nil {
		found.Detail, found.ToDo = err.Error(), "check the link (SPOOL_SERVER, "+cfg.Source(config.Server)+") and whether the server runs; or unset it to use store and Temporal"
	}
	return []doctor.Check{found}, agent.CodeOf(err) != agent.CodeUnavailable
}

type trustCmd struct {
	Dir    string `arg:"" optional:"" help:"Folder; default: the working directory, and the workspace of workers that are started here."`
	Yes    bool   `xor:"what" help:"Agree without asking, to the bytes that this run has shown."`
	Forget bool   `xor:"what" help:"Take back what was agreed to of the folder."`
}

// Run shows what the files of a folder, and mcp.json of home, ask for, and records that a
// person agrees to these bytes.
func (c *trustCmd) Run(ctx context.Context, a *app) error {
	dir, err := filepath.Abs(c.Dir) // "" is the working directory
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return agent.Errorf(agent.CodeNotFound, "there is no folder %s", dir)
	}
	cfg, err := a.configIn("")
	if err == nil && c.Dir != "" {
		a.flags[config.Home] = cfg.Home // that of where the command is called
		cfg, err = a.configIn(dir)
		cfg.Workspace = dir
	}
	if err != nil {
		return err
	}
	if c.Forget {
		return a.doctor(cfg).Forget(a.Printer, dir)
	}
	var ask func(context.Context, string) (bool, error)
	if a.Present && a.live && !a.JSON {
		ask = a.Confirm
	}
	agreed, err := a.doctor(cfg).Trust(ctx, a.Printer, c.Yes, ask)
	if err == nil && !agreed {
		return exit.With(exit.Waiting)
	}
	return err
}

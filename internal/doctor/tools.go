package doctor

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/mcp"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/trust"
)

// Tool is a tool as printed.
type Tool struct {
	Name       string `json:"name"`
	Server     string `json:"server,omitempty"`
	ReadOnly   bool   `json:"readOnly"`
	Repeatable bool   `json:"repeatable"`
	TimeoutMs  int64  `json:"timeoutMs"`
	// Approval is what applies where an agent's template says nothing.
	Approval    agent.Gate `json:"approval"`
	Description string     `json:"description"`
}

// File is a file of MCP servers as printed.
type File struct {
	Path    string `json:"path"`
	Agreed  bool   `json:"agreed"`
	Problem string `json:"problem,omitempty"`
}

// Tools are the tools that a worker with these settings offers.
type Tools struct {
	Tools   []Tool       `json:"tools"`
	Servers []mcp.Status `json:"servers"`
	Files   []File       `json:"files"`
	search  bool         // web_search has its key
}

// Tools starts MCP servers to ask them for their tools.
func (d *Doctor) Tools(ctx context.Context) Tools {
	files, servers := mcp.Probe(ctx, d.MCP())
	out := Tools{Tools: d.builtin(), Servers: append([]mcp.Status{}, servers...), Files: []File{}, search: d.Config.TavilyKey.IsSet()}
	for _, s := range servers {
		for _, spec := range s.Tools {
			out.Tools = append(out.Tools, toolOf(spec, s.ID))
		}
	}
	for _, f := range files {
		if f.Raw != nil || f.Problem != "" {
			out.Files = append(out.Files, File{f.Path(), f.Agreed, f.Problem})
		}
	}
	return out
}

// Failed reports whether a file is wrong, or a server does not answer.
func (t Tools) Failed() bool {
	return slices.ContainsFunc(t.Files, func(f File) bool { return f.Problem != "" }) ||
		slices.ContainsFunc(t.Servers, func(s mcp.Status) bool { return s.State == mcp.StateFailed })
}

// MCP says where files of MCP servers are.
func (d *Doctor) MCP() mcp.Options {
	return mcp.Options{Workspace: d.Config.Workspace, Home: d.Config.Home, Env: d.Env, Log: slog.New(slog.DiscardHandler)}
}

func (d *Doctor) builtin() []Tool {
	cfg := d.Config
	catalog, _ := template.Load(boot.Folders(cfg))
	specs := []agent.ToolSpec{agent.AssignTaskSpec(catalog.List()), agent.TaskOutputSpec(), agent.AskUserSpec(), agent.ToolOutputSpec()}
	for _, t := range tool.Builtin(tool.Options{TavilyKey: cfg.TavilyKey.Reveal(), AllowPrivate: cfg.WebFetchPrivate, ShellMemory: cfg.ShellMemory}) {
		specs = append(specs, t.Spec())
	}
	slices.SortFunc(specs, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	list := []Tool{}
	for _, s := range specs {
		list = append(list, toolOf(s, ""))
	}
	return list
}

func toolOf(s agent.ToolSpec, server string) Tool {
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = agent.DefaultToolTimeout
	}
	gate := tool.Gate(s, agent.ToolRun{}, nil)
	if s.Name == agent.ToolAssignTask {
		gate = agent.GateAuto
	}
	return Tool{s.Name, server, s.ReadOnly, s.Repeatable, timeout.Milliseconds(), gate, s.Description}
}

// Print prints tools, files and servers for people.
func (t Tools) Print(p *printer.Printer) {
	table := &printer.Table{Columns: []printer.Column{{Name: "TOOL", Min: 20}, {Name: "CALLS", Min: 12, Drop: 1}, {Name: "WHAT IT DOES", Min: 20}}}
	for _, one := range t.Tools {
		marks := string(one.Approval)
		if one.ReadOnly {
			marks += ", read-only"
		}
		if one.Repeatable {
			marks += ", repeatable"
		}
		table.Add([]string{one.Name, marks, one.Description})
	}
	p.Table(table)
	for _, f := range t.Files {
		if f.Problem != "" {
			p.Print("\n%s %s", terminal.Visible(f.Path), terminal.Visible(f.Problem))
		}
	}
	if len(t.Servers) > 0 {
		p.Print("")
	}
	for _, s := range t.Servers {
		id := terminal.Visible(s.ID)
		switch s.State {
		case mcp.StateOK:
			p.Print("MCP server %s: ok, %s (%s)", id, printer.Plural(len(s.Tools), "tool"), terminal.OneLine(s.Runs, 100))
		case mcp.StateFailed:
			p.Print("MCP server %s of %s FAILED: %s", id, terminal.Visible(s.File), terminal.Visible(s.Problem))
		case mcp.StateWaiting:
			p.Print("MCP server %s waits for your agreement to %s: %s trust", id, terminal.Visible(s.File), p.Name)
		}
	}
	if !t.search {
		p.Progress("web_search needs TAVILY_API_KEY in the worker's environment")
	}
}

func (d *Doctor) asks() string { return d.Program + " trust shows what it asks for, and agrees" }

// Offers are the files that ask for something: settings, agents and MCP servers of the
// folder, and the MCP servers of home. What is shown and agreed to is what is read here.
func (d *Doctor) Offers() (offers []trust.Offer) {
	catalog, _ := template.Load(boot.Folders(d.Config))
	found := append([]trust.Offer{d.Config.Folder}, catalog.Offers()...)
	for _, f := range d.MCP().Files() {
		found = append(found, f.Offer)
	}
	for _, o := range found {
		if len(o.Allows) > 0 || o.Problem != "" {
			offers = append(offers, o)
		}
	}
	return offers
}

// Trust shows these files and records that a person agrees to them: with yes at once, else
// if ask is there and says so. agreed means that nothing waits any more.
func (d *Doctor) Trust(ctx context.Context, p *printer.Printer, yes bool, ask func(context.Context, string) (bool, error)) (agreed bool, err error) {
	offers := d.Offers()
	err = p.Show(map[string]any{"home": d.Config.Home, "files": append([]trust.Offer{}, offers...), "agrees": yes}, func() { printOffers(p, offers) })
	if err = cmp.Or(err, p.Out.Failed()); err != nil {
		return false, err // what was not shown is not agreed to
	}
	var open []trust.File
	laxer := 0
	for _, o := range offers {
		if !o.Agreed && o.Problem == "" {
			open = append(open, o.File)
			if !o.Plain {
				laxer++
			}
		}
	}
	if len(open) == 0 {
		p.Progress("nothing here waits for your agreement")
		return true, nil
	}
	if !yes && ask != nil {
		p.Progress("%s to agree to, %d of them with rules, settings or servers that allow more", printer.Plural(len(open), "file"), laxer)
		if yes, err = ask(ctx, "Agree to what is shown? A file that changes is asked about again. [y/N] "); err != nil {
			return false, err
		}
	}
	if !yes {
		p.Progress("nothing was agreed to; --yes agrees without asking")
		return false, nil
	}
	if err := trust.Agree(d.Config.Home, time.Now(), open...); err != nil {
		return false, err
	}
	p.Progress("agreed, for home %s", strconv.QuoteToASCII(d.Config.Home))
	return true, nil
}

// Forget takes back what was agreed to of a folder and of the workspace.
func (d *Doctor) Forget(p *printer.Printer, folder string) error {
	forgotten := 0
	for _, one := range []string{folder, d.Config.Workspace} {
		n, err := trust.Forget(d.Config.Home, one)
		if err != nil {
			return err
		}
		forgotten += n
	}
	if forgotten == 0 {
		return agent.Errorf(agent.CodeNotFound, "no agreement is kept for this folder: nothing was taken back")
	}
	return p.Show(map[string]any{"home": d.Config.Home, "forgotten": forgotten}, func() { p.Progress("%s taken back", printer.Plural(forgotten, "agreement")) })
}

func printOffers(p *printer.Printer, offers []trust.Offer) {
	for _, o := range offers {
		state := "WAITS for your agreement"
		switch {
		case o.Agreed:
			state = "agreed to already, counts"
		case o.Problem != "":
			state = "does not count"
		}
		p.Print("%s  %s, sha256 %s", strconv.QuoteToASCII(o.Path()), state, o.Hash())
		if o.Problem != "" {
			p.Print("  cannot be used: %s", strconv.QuoteToASCII(o.Problem))
		}
		for _, line := range o.Allows {
			p.Print("  %s", line)
		}
	}
}

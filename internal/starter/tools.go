package starter

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/mcp"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/tool"
)

type toolsCmd struct {
	Trust bool `help:"Agree that the MCP servers of this project's .mcp.json are started; a change of the file needs a new agreement."`
}

// toolInfo is a tool as printed.
type toolInfo struct {
	Name       string `json:"name"`
	Server     string `json:"server,omitempty"`
	ReadOnly   bool   `json:"readOnly"`
	Repeatable bool   `json:"repeatable"`
	TimeoutMs  int64  `json:"timeoutMs"`
	// Approval is what applies where an agent's template says nothing.
	Approval    agent.Gate `json:"approval"`
	Description string     `json:"description"`
}

// fileInfo is a file of MCP servers as printed.
type fileInfo struct {
	Path    string `json:"path"`
	Agreed  bool   `json:"agreed"`
	Problem string `json:"problem,omitempty"`
}

// Run lists the tools a worker with these settings would offer. MCP servers are
// started to ask them; one that does not answer makes the command fail.
func (c toolsCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if c.Trust {
		if err := a.trust(cfg); err != nil {
			return err
		}
	}
	files, servers := mcp.Probe(ctx, a.mcpOptions(cfg))
	list := builtinTools(cfg)
	for _, s := range servers {
		for _, spec := range s.Tools {
			list = append(list, toolOf(spec, s.ID))
		}
	}
	failed := false
	infos := []fileInfo{}
	for _, f := range files {
		if f.Hash != "" || f.Problem != "" {
			infos = append(infos, fileInfo{f.Path, mcp.Agreed(cfg.Home, f), f.Problem})
			failed = failed || f.Problem != ""
		}
	}
	for _, s := range servers {
		failed = failed || s.State == mcp.StateFailed
	}
	if a.json {
		err = a.printJSON(map[string]any{"tools": list, "servers": append([]mcp.Status{}, servers...), "files": infos})
	} else {
		a.printTools(cfg, list, infos, servers)
	}
	if failed && err == nil {
		return ended(exitFailed)
	}
	return err
}

func (a *app) mcpOptions(cfg config.Config) mcp.Options {
	return mcp.Options{Workspace: cfg.Workspace, Home: cfg.Home, Env: a.lookup, Log: slog.New(slog.DiscardHandler)}
}

// trust agrees to the project's file as it is now, and says to what.
func (a *app) trust(cfg config.Config) error {
	for _, f := range a.mcpOptions(cfg).Files() {
		if !f.Project {
			continue
		}
		if f.Hash == "" {
			return agent.Errorf(agent.CodeNotFound, "there is no %s: nothing to agree to", f.Path)
		}
		if f.Problem != "" {
			return agent.Errorf(agent.CodeInvalid, "%s %s", f.Path, f.Problem)
		}
		if err := mcp.Agree(cfg.Home, f, time.Now()); err != nil {
			return err
		}
		a.progress("agreed: workers with home %s start the MCP servers of %s", cfg.Home, f.Path)
	}
	return nil
}

func builtinTools(cfg config.Config) []toolInfo {
	catalog, _ := template.Load(cfg.Workspace, cfg.Home)
	specs := []agent.ToolSpec{agent.AssignTaskSpec(catalog.List()), agent.TaskOutputSpec(), agent.AskUserSpec(), agent.ToolOutputSpec()}
	for _, t := range tool.Builtin(tool.Options{TavilyKey: cfg.TavilyKey.Reveal(), AllowPrivate: cfg.WebFetchPrivate, ShellMemory: cfg.ShellMemory}) {
		specs = append(specs, t.Spec())
	}
	slices.SortFunc(specs, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	list := []toolInfo{}
	for _, s := range specs {
		list = append(list, toolOf(s, ""))
	}
	return list
}

func toolOf(s agent.ToolSpec, server string) toolInfo {
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = agent.DefaultToolTimeout
	}
	gate := tool.Gate(s, nil, nil)
	if s.Name == agent.ToolAssignTask {
		gate = agent.GateAuto
	}
	return toolInfo{s.Name, server, s.ReadOnly, s.Repeatable, timeout.Milliseconds(), gate, s.Description}
}

func (a *app) printTools(cfg config.Config, list []toolInfo, files []fileInfo, servers []mcp.Status) {
	width := 12
	for _, t := range list {
		width = max(width, len(t.Name))
	}
	for _, t := range list {
		marks := []string{string(t.Approval)}
		if t.ReadOnly {
			marks = append(marks, "read-only")
		}
		if t.Repeatable {
			marks = append(marks, "repeatable")
		}
		a.print("%-*s  %-27s %s", width, t.Name, strings.Join(marks, ", "), oneLine(t.Description, 100))
	}
	for _, f := range files {
		if f.Problem != "" {
			a.print("\n%s %s", clean(f.Path), clean(f.Problem))
		}
	}
	waits := ""
	for i, s := range servers {
		if i == 0 {
			a.print("")
		}
		switch s.State {
		case mcp.StateOK:
			a.print("MCP server %s: ok, %s (%s)", clean(s.ID), plural(len(s.Tools), "tool"), oneLine(s.Runs, 100))
		case mcp.StateFailed:
			a.print("MCP server %s of %s FAILED: %s", clean(s.ID), clean(s.File), clean(s.Problem))
		case mcp.StateWaiting:
			waits = s.File
			a.print("MCP server %s waits for your agreement: %s", clean(s.ID), clean(s.Runs))
		}
	}
	if waits != "" {
		a.progress("nothing of %s is started before you agree to it: %s tools --trust", clean(waits), a.name)
	}
	if !cfg.TavilyKey.IsSet() {
		a.progress("web_search needs TAVILY_API_KEY in the worker's environment")
	}
}

package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spool-agents/spool/internal/tool"
)

// claudeNames maps Claude Code's tools to ours.
var claudeNames = map[string]string{
	"Read": "file_read", "Write": "file_write", "Edit": "file_edit", "MultiEdit": "file_edit", "LS": "ls",
	"Glob": "glob", "Grep": "grep", "Bash": "shell", "WebFetch": "web_fetch", "WebSearch": "web_search",
	"Task": "assign_task", "Agent": "assign_task", "TaskOutput": "task_output", "AskUserQuestion": "ask_user",
}

// claudeOnly are tools of Claude Code that have no counterpart here.
var claudeOnly = []string{
	"TodoWrite", "TodoRead", "NotebookEdit", "NotebookRead", "BashOutput", "KillShell", "KillBash", "ExitPlanMode", "EnterPlanMode",
	"SlashCommand", "Skill", "ListMcpResourcesTool", "ReadMcpResourceTool", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TaskStop",
	"EnterWorktree", "ExitWorktree", "ToolSearch", "LSP", "Monitor", "SendMessage",
}

func knownTools(extra []string) map[string]bool {
	known := map[string]bool{"assign_task": true, "task_output": true, "tool_output": true, "ask_user": true, "*": true}
	for _, name := range append(tool.BuiltinNames(), extra...) {
		known[name] = true
	}
	return known
}

// toolName translates a name and warns about one nobody knows. Unknown names
// are kept: a worker may have tools of its own, and one it lacks is not offered.
func (p *parser) toolName(name string, line int) string {
	if ours, ok := claudeNames[name]; ok {
		return ours
	}
	if !p.known[name] && !strings.HasPrefix(name, "mcp__") && !strings.Contains(name, "*") {
		p.warn(line, "unknown tool %q; it is offered only if the worker has it", name)
	}
	return name
}

// names reads a comma list or a YAML list.
func (p *parser) names(f field) ([]string, bool) {
	var names []string
	switch v := f.value.(type) {
	case string:
		names = splitList(v)
	case []any:
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				p.warn(f.line, "%s holds %s, want names of tools; it was left out", f.key, shown(item))
				continue
			}
			names = append(names, splitList(s)...)
		}
	default:
		p.warn(f.line, "%s is %s, want a list of tools; the default is used", f.key, shown(f.value))
		return nil, false
	}
	return names, true
}

func (p *parser) tools(f field) {
	names, ok := p.names(f)
	if !ok {
		return
	}
	list := []string{} // not nil: an empty list means no tool
	for _, name := range names {
		base, pattern, has := tool.SplitRule(name)
		if !p.known[base] && slices.Contains(claudeOnly, base) {
			p.foreign, p.toolLine = append(p.foreign, base), f.line
			continue
		}
		if has {
			p.warn(f.line, "the pattern (%s) does not restrict tool %s here; use approval: {\"%s(%s)\": auto}", pattern, base, p.rename(base), pattern)
		}
		if ours := p.toolName(base, f.line); ours == "*" {
			p.out.config.Tools = nil
			return
		} else if !slices.Contains(list, ours) {
			list = append(list, ours)
		}
	}
	p.out.config.Tools = list
}

// denied reads Claude Code's disallowedTools as rules of the approval policy.
func (p *parser) denied(f field) {
	names, _ := p.names(f)
	for _, name := range names {
		if base, _, _ := tool.SplitRule(name); p.known[base] || !slices.Contains(claudeOnly, base) {
			p.rule(name, "deny", f.line)
		}
	}
}

func (p *parser) approval(f field) {
	switch v := f.value.(type) {
	case string:
		p.rule("*", v, f.line)
	case map[string]any:
		for _, rule := range slices.Sorted(maps.Keys(v)) {
			line := f.lines[rule]
			if line == 0 {
				line = f.line
			}
			p.rule(rule, fmt.Sprint(v[rule]), line)
		}
	default:
		p.warn(f.line, "approval is %s, want a mapping of tools to auto, ask or deny; it was left out", shown(f.value))
	}
}

func (p *parser) rule(rule, gate string, line int) {
	if problem := tool.CheckRule(rule, gate); problem != "" {
		p.warn(line, "%s; it was left out", problem)
		return
	}
	base, pattern, has := tool.SplitRule(rule)
	base = p.toolName(base, line)
	if has {
		base += "(" + pattern + ")"
	}
	if p.out.config.Approval == nil {
		p.out.config.Approval = map[string]string{}
	}
	p.out.config.Approval[base] = gate
}

func (p *parser) rename(name string) string {
	if ours, ok := claudeNames[name]; ok {
		return ours
	}
	return name
}

// splitList splits at commas outside parentheses.
func splitList(s string) []string {
	var out []string
	depth, start := 0, 0
	add := func(part string) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	for i, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth > 0:
			depth--
		case r == ',' && depth == 0:
			add(s[start:i])
			start = i + 1
		}
	}
	add(s[start:])
	return out
}

package template

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/trust"
)

type parser struct {
	file     string
	known    map[string]bool
	warnings []Warning
	out      loaded
	// lost is a rule that cannot be read, which must not be lost.
	lost     string
	lostLine int
	// reads means that the agent only reads.
	reads bool
}

func parse(file, text string, known map[string]bool) (*loaded, []Warning) {
	p := &parser{file: file, known: known}
	c := &p.out.config
	c.Name, c.Stream, p.out.nameLine, p.out.lines = strings.TrimSuffix(filepath.Base(file), ".md"), true, 1, map[string]int{}
	front, body, line := split(text)
	if line > 0 {
		return p.skip(line, "the front matter has no closing ---")
	}
	if line, what := unread(body); line > 0 {
		return p.skip(line+strings.Count(text, "\n")-strings.Count(body, "\n"), what)
	}
	if err := trust.CheckYAML(front); err != nil {
		return p.skip(1, "the file "+err.Error())
	}
	fields, problem, line := readFront(front)
	if problem != "" {
		return p.skip(line, problem)
	}
	if line, problem = p.take(fields); problem != "" {
		return p.skip(line, problem)
	}
	if err := agent.CheckAgentType(c.Name); err != nil {
		return p.skip(p.out.nameLine, err.Error())
	}
	if c.SystemPrompt = strings.TrimSpace(body); c.SystemPrompt == "" {
		return p.skip(max(1, strings.Count(strings.TrimRight(text, " \t\r\n"), "\n")+1), "the body, which is the system prompt, is empty")
	}
	return &p.out, p.warnings
}

// take takes over what the front matter says; problem is a limit that cannot be read.
func (p *parser) take(fields []field) (line int, problem string) {
	setters, seen := map[string]setter{}, map[string]int{}
	for key, set := range p.setters() {
		setters[plainKey(key)] = set
	}
	for _, f := range fields {
		key := plainKey(f.key)
		set, known := setters[key]
		switch {
		case !known && limiting.MatchString(key):
			return f.line, fmt.Sprintf("the key %q is not known here and may forbid something: say it with tools, disallowedTools, approval or maxSteps, or take it out", f.key)
		case !known:
			p.warn(f.line, "unknown key %q; known are %s", f.key, keys)
			continue
		case seen[key] > 0:
			return f.line, fmt.Sprintf("%s stands in line %d too: leave one out", f.key, seen[key])
		case f.value == nil: // a key without a value keeps its default
			continue
		}
		p.out.lines[key], seen[key] = f.line, f.line
		want := set(f)
		switch {
		case p.lost != "":
			return p.lostLine, p.lost
		case want != "" && limits[key]:
			return f.line, fmt.Sprintf("%s is %v, want %s", f.key, shown(f.value), want)
		case want != "":
			p.warn(f.line, "%s is %v, want %s; the default is used", f.key, shown(f.value), want)
		}
	}
	if p.reads {
		reading := []string{agent.ToolAskUser}
		for _, t := range tool.Builtin(tool.Options{TavilyKey: "of the worker"}) {
			if t.Spec().ReadOnly {
				reading = append(reading, t.Spec().Name)
			}
		}
		p.out.config.Tools = agent.IntersectTools(p.out.config.Tools, reading)
	}
	return 0, ""
}

func (p *parser) warn(line int, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{File: p.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (p *parser) skip(line int, text string) (*loaded, []Warning) {
	p.warn(line, "skipped: %s", text)
	return nil, p.warnings
}

// plainKey makes the spellings of a key one: maxSteps, max_steps, Max-Steps.
func plainKey(key string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// limits are the keys, plain, that keep an agent from something: without one the agent
// may do more than the person wrote.
var limits = map[string]bool{"tools": true, "disallowedtools": true, "approval": true, "maxsteps": true, "maxturns": true, "maxtokens": true, "timeoutms": true,
	"permissionmode": true, "hooks": true}

// limiting are keys, plain, of other programs, and misspelt ones, that may keep an agent
// from something.
var limiting = regexp.MustCompile(`tool|isolat|allow|den[yi]|permission|app?rov|readonly|restrict|forbid|disable|sandbox|budget|limit|timeout|^max|steps`)

// keys lists the front matter keys; it is printed for unknown ones.
const keys = "name, description, tools, model, provider, temperature, maxTokens, topP, timeoutMs, maxSteps, stream, shareContext, approval, onDeny"

// setter takes the value of a key, or returns what it has to be.
type setter func(field) (want string)

// setters are the keys of the front matter, with those of Claude Code.
func (p *parser) setters() map[string]setter {
	c := &p.out.config
	whole := number(0, 1<<40, func(n float64) {
		if c.MaxSteps = int(n); n == 0 {
			c.MaxSteps = agent.NoStepLimit
		}
	}, true)
	steps := func(f field) string { p.out.lines["maxsteps"] = f.line; return whole(f) }
	return map[string]setter{
		"name":         func(f field) string { p.out.nameLine = f.line; return text(&c.Name)(f) },
		"description":  text(&c.Description),
		"model":        p.model,
		"provider":     func(f field) string { p.out.modelLine = f.line; return text(&c.Provider)(f) },
		"temperature":  number(0, 2, func(n float64) { c.Temperature = &n }, false),
		"topP":         number(0, 1, func(n float64) { c.TopP = &n }, false),
		"maxTokens":    number(1, 1<<40, func(n float64) { limit := int(n); c.MaxTokens = &limit }, true),
		"timeoutMs":    number(0, 1<<40, func(n float64) { c.TimeoutMs = int64(n) }, true),
		"maxSteps":     steps,
		"maxTurns":     steps,
		"stream":       boolean(&c.Stream),
		"shareContext": boolean(&c.ShareContext),
		"tools":        p.tools,
		"approval":     p.approval,
		"onDeny":       p.onDeny,
		// Claude Code's.
		"disallowedTools": p.denied,
		"permissionMode":  p.mode,
		"hooks":           p.hooks,
		"color":           func(field) string { return "" }, // only the looks in another program
	}
}

func shown(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%.60q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	default:
		return fmt.Sprint(v)
	}
}

func text(to *string) setter {
	return func(f field) string {
		s, ok := f.value.(string)
		if !ok {
			return "a text"
		}
		*to = strings.TrimSpace(s)
		return ""
	}
}

func boolean(to *bool) setter {
	return func(f field) string {
		b, ok := f.value.(bool)
		if !ok {
			return "true or false"
		}
		*to = b
		return ""
	}
}

func number(least, most float64, set func(float64), whole bool) setter {
	want := fmt.Sprintf("a number from %g to %g", least, most)
	if whole {
		want = fmt.Sprintf("a whole number of at least %g", least)
	}
	return func(f field) string {
		var n float64
		switch v := f.value.(type) {
		case int64:
			n = float64(v)
		case uint64:
			n = float64(v)
		case float64:
			n = v
		default:
			return want
		}
		if n < least || n > most || whole && n != float64(int64(n)) {
			return want
		}
		set(n)
		return ""
	}
}

func (p *parser) model(f field) string {
	c := &p.out.config
	want := text(&c.Model)(f)
	switch c.Model {
	case "inherit", "sonnet", "opus", "haiku": // Claude Code's words for "not ours to choose"
		c.Model = ""
	}
	if p.out.modelLine == 0 && c.Model != "" {
		p.out.modelLine = f.line
	}
	return want
}

func (p *parser) onDeny(f field) string {
	var v string
	if text(&v)(f); v != agent.OnDenyEnd && v != agent.OnDenyContinue {
		return agent.OnDenyEnd + " or " + agent.OnDenyContinue
	}
	p.out.config.OnDeny = v
	return ""
}

// mode reads Claude Code's permissionMode: an agent that plans has the tools that only
// read. Modes that ask less than the default count for nothing: approval says that here.
func (p *parser) mode(f field) string {
	switch f.value {
	case "plan":
		p.reads = true
	case "default":
	case "acceptEdits", "bypassPermissions":
		p.warn(f.line, "permissionMode %s counts for nothing here: what may run unasked is said with approval", f.value)
	default:
		return "plan or default"
	}
	return ""
}

// hooks skips a file whose hooks may refuse calls: they do not run here.
func (p *parser) hooks(f field) string {
	on, ok := f.value.(map[string]any)
	for event := range on {
		ok = ok && (strings.HasPrefix(event, "Post") || slices.Contains([]string{"Stop", "SubagentStop", "Notification", "SessionEnd"}, event))
	}
	if !ok {
		return "none that may refuse a call, such as PreToolUse: hooks do not run here; say with approval or disallowedTools what is refused"
	}
	p.warn(f.line, "hooks do not run here")
	return ""
}

// names reads a comma list or a YAML list.
func names(f field) (names []string, want string) {
	list, ok := f.value.([]any)
	if s, isText := f.value.(string); isText {
		list, ok = []any{s}, true
	}
	for _, item := range list {
		s, isText := item.(string)
		ok = ok && isText
		names = append(names, splitList(s)...)
	}
	if !ok {
		return nil, "a list of tools"
	}
	return names, ""
}

func (p *parser) tools(f field) string {
	all, want := names(f)
	if want != "" {
		return want
	}
	list := []string{} // not nil: an empty list means no tool
	for _, name := range all {
		base, pattern, has := tool.SplitRule(name)
		if has {
			p.warn(f.line, "tool %s is left out: its pattern (%s) would not restrict it here; name %s without it, and say approval: {%s: deny, \"%s(%s)\": auto}",
				base, pattern, base, ours(base), ours(base), pattern)
			continue
		}
		if name := p.toolName(base, f.line); name == "*" {
			p.out.config.Tools = nil
			return ""
		} else if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	p.out.config.Tools = list
	return ""
}

// denied reads Claude Code's disallowedTools as rules of the approval policy.
func (p *parser) denied(f field) string {
	all, want := names(f)
	for _, name := range all {
		p.rule(name, "deny", f.line)
	}
	return want
}

func (p *parser) approval(f field) string {
	switch v := f.value.(type) {
	case string:
		p.rule("*", v, f.line)
	case map[string]any:
		for _, rule := range slices.Sorted(maps.Keys(v)) {
			p.rule(rule, fmt.Sprint(v[rule]), f.lines[rule])
		}
	default:
		return "a mapping of tools to auto, ask or deny"
	}
	return ""
}

func (p *parser) rule(rule, gate string, line int) {
	gate = strings.ToLower(strings.TrimSpace(gate))
	if problem := tool.CheckRule(rule, gate); problem != "" {
		p.lost, p.lostLine = problem, line
		return
	}
	base, pattern, has := tool.SplitRule(rule)
	base = p.toolName(base, line)
	if base == "grep" && strings.ContainsAny(pattern, `\^$|+()[]`) {
		p.warn(line, "the pattern (%s) of grep is held against its path, not against what it searches for", pattern)
	}
	if has {
		base += "(" + pattern + ")"
	}
	if p.out.config.Approval == nil {
		p.out.config.Approval = map[string]string{}
	}
	p.out.config.Approval[base], p.out.lines["approval "+base] = gate, line
}

// claudeNames maps Claude Code's tools to ours.
var claudeNames = map[string]string{
	"Read": "file_read", "Write": "file_write", "Edit": "file_edit", "MultiEdit": "file_edit", "LS": "ls",
	"Glob": "glob", "Grep": "grep", "Bash": "shell", "WebFetch": "web_fetch", "WebSearch": "web_search",
	"Task": "assign_task", "Agent": "assign_task", "TaskOutput": "task_output", "AskUserQuestion": "ask_user",
}

func ours(name string) string {
	if ours, ok := claudeNames[name]; ok {
		return ours
	}
	return name
}

// toolName translates a name and warns about one nobody knows. Unknown names
// are kept: a worker may have tools of its own, and one it lacks is not offered.
func (p *parser) toolName(name string, line int) string {
	name = ours(name)
	if !p.known[name] && !strings.HasPrefix(name, "mcp__") && !strings.Contains(name, "*") {
		p.warn(line, "unknown tool %q; it is offered only if the worker has it", name)
	}
	return name
}

func knownTools(extra []string) map[string]bool {
	known := map[string]bool{"assign_task": true, "task_output": true, "tool_output": true, "ask_user": true, "*": true}
	for _, name := range append(tool.BuiltinNames(), extra...) {
		known[name] = true
	}
	return known
}

// splitList splits at commas outside parentheses.
func splitList(s string) []string {
	depth := 0
	parts := strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		return r == ',' && depth == 0
	})
	var out []string
	for _, part := range parts {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

package template

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
)

// parser turns one file into a template.
type parser struct {
	file     string
	known    map[string]bool
	warnings []Warning
	out      loaded
	foreign  []string // tools of Claude Code that have no counterpart here
	toolLine int      // where the first of them stands
}

// keys lists the front matter keys; it is printed for unknown ones.
const keys = "name, description, tools, model, provider, temperature, maxTokens, topP, timeoutMs, maxSteps, stream, shareContext, approval, onDeny"

func parse(file, text string, known map[string]bool) (*loaded, []Warning) {
	p := &parser{file: file, known: known}
	p.out.config = agent.SpecialistAgentConfig{Name: strings.TrimSuffix(filepath.Base(file), ".md"), Stream: true}
	if !utf8.ValidString(text) {
		return p.skip(lineOfBadByte(text), "the file is not valid UTF-8")
	}
	front, body, ok := split(text)
	if !ok {
		return p.skip(1, "the front matter has no closing ---")
	}
	fields, problem, line := readFront(front)
	if problem != "" {
		p.warn(line, "%s", problem)
	}
	p.out.nameLine = 1
	for _, f := range fields {
		if f.key == "name" {
			p.out.nameLine = f.line
		}
		p.apply(f)
	}
	if len(p.foreign) > 0 {
		p.warn(p.toolLine, "no counterpart here to Claude Code's %s: the agent works without", strings.Join(p.foreign, ", "))
	}
	c := &p.out.config
	if err := agent.CheckAgentType(c.Name); err != nil {
		return p.skip(p.out.nameLine, err.Error())
	}
	if c.SystemPrompt = strings.TrimSpace(body); c.SystemPrompt == "" {
		return p.skip(max(1, strings.Count(strings.TrimRight(text, " \t\r\n"), "\n")+1), "the body, which is the system prompt, is empty")
	}
	return &p.out, p.warnings
}

// lineOfBadByte is the line of the first byte that is no UTF-8.
func lineOfBadByte(text string) int {
	valid := strings.ToValidUTF8(text, "\x00")
	for i := range min(len(text), len(valid)) {
		if text[i] != valid[i] {
			return strings.Count(text[:i], "\n") + 1
		}
	}
	return 1
}

func (p *parser) warn(line int, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{p.file, line, fmt.Sprintf(format, args...)})
}

func (p *parser) skip(line int, text string) (*loaded, []Warning) {
	p.warn(line, "skipped: %s", text)
	return nil, p.warnings
}

func (p *parser) apply(f field) {
	if err, bad := f.value.(error); bad {
		p.warn(f.line, "%s %v; it was left out", f.key, err)
		return
	}
	if f.value == nil {
		return // a key without a value keeps its default
	}
	c := &p.out.config
	switch f.key {
	case "name":
		p.text(f, &c.Name)
	case "description":
		p.text(f, &c.Description)
	case "model":
		p.text(f, &c.Model)
		switch c.Model {
		case "inherit", "sonnet", "opus", "haiku": // Claude Code's words for "not ours to choose"
			c.Model = ""
		}
		if p.out.modelLine == 0 && c.Model != "" {
			p.out.modelLine = f.line
		}
	case "provider":
		p.text(f, &c.Provider)
		p.out.modelLine = f.line
	case "temperature":
		c.Temperature = p.float(f, 0, 2)
	case "topP":
		c.TopP = p.float(f, 0, 1)
	case "maxTokens":
		if n, ok := p.whole(f, 1); ok {
			limit := int(n)
			c.MaxTokens = &limit
		}
	case "timeoutMs":
		c.TimeoutMs, _ = p.whole(f, 0)
	case "maxSteps", "maxTurns":
		n, ok := p.whole(f, 0)
		if c.MaxSteps = int(n); ok && n == 0 {
			c.MaxSteps = agent.NoStepLimit
		}
	case "stream":
		p.flag(f, &c.Stream)
	case "shareContext":
		p.flag(f, &c.ShareContext)
	case "tools":
		p.tools(f)
	case "disallowedTools":
		p.denied(f)
	case "approval":
		p.approval(f)
	case "onDeny":
		p.text(f, &c.OnDeny)
		switch c.OnDeny {
		case "", agent.OnDenyEnd, agent.OnDenyContinue:
		default:
			p.wrong(f, agent.OnDenyEnd+" or "+agent.OnDenyContinue)
			c.OnDeny = ""
		}
	case "color": // only the looks in another program
	default:
		p.warn(f.line, "unknown key %q; known are %s", f.key, keys)
	}
}

func (p *parser) wrong(f field, want string) {
	p.warn(f.line, "%s is %v, want %s; the default is used", f.key, shown(f.value), want)
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

func (p *parser) text(f field, to *string) {
	s, ok := f.value.(string)
	if !ok {
		p.wrong(f, "a text")
		return
	}
	*to = strings.TrimSpace(s)
}

func (p *parser) flag(f field, to *bool) {
	b, ok := f.value.(bool)
	if !ok {
		p.wrong(f, "true or false")
		return
	}
	*to = b
}

func (p *parser) float(f field, least, most float64) *float64 {
	v, ok := number(f.value)
	if !ok || v < least || v > most {
		p.wrong(f, fmt.Sprintf("a number from %g to %g", least, most))
		return nil
	}
	return &v
}

func (p *parser) whole(f field, least int64) (int64, bool) {
	v, ok := number(f.value)
	if n := int64(v); ok && float64(n) == v && n >= least && n < 1<<40 {
		return n, true
	}
	p.wrong(f, fmt.Sprintf("a whole number of at least %d", least))
	return 0, false
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

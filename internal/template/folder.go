package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/trust"
)

// Folders are where templates are looked for; an empty one is left out.
type Folders struct {
	Project, Home string
	// MaxSteps is the limit of main threads, 0 = none.
	MaxSteps int
}

// asks is what a project's file wants and may not have before a person has agreed to it.
type asks struct {
	line int
	what string
}

// settle finds which template of each name counts: the first, unless nobody has agreed to
// its file and there is another one. Before that a new agent only has rules that are
// stricter, and no model of its own.
func (c *Catalog) settle(all map[string][]loaded, most int) (warnings []Warning) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list := all[name]
		counts := max(slices.IndexFunc(list, func(t loaded) bool { return t.agreed }), 0)
		t := list[counts]
		for _, hidden := range list[counts+1:] {
			t.hides = append(t.hides, hidden.config.Source)
		}
		strict, wants := t.tightened(most)
		if first := list[0]; counts > 0 {
			_, more := first.tightened(most)
			c.offers = append(c.offers, first.offer(more, []string{t.config.Source}))
			warnings = append(warnings, Warning{File: first.config.Source, Line: first.nameLine, Asks: true,
				Text: fmt.Sprintf("before you agree to this file, it does not take the place of the agent %s (%s); %s shows it and asks",
					name, t.config.Source, trust.Command(first.file.Folder))})
		}
		if t.project {
			c.offers = append(c.offers, t.offer(wants, t.hides))
		}
		if !t.agreed {
			t.config = strict
			if len(wants) > 0 {
				warnings = append(warnings, Warning{File: t.config.Source, Line: wants[0].line, Asks: true,
					Text: fmt.Sprintf("before you agree to this file, a model that it names does not count, and rules and limits count only where they are stricter: %s; %s shows it and asks",
						trust.Lines(texts(wants)), trust.Command(t.file.Folder))})
			}
		}
		c.byName[name] = t
	}
	return warnings
}

// offer says what a project's file asks for: of one that takes another's place, all of it.
func (t loaded) offer(wants []asks, instead []string) trust.Offer {
	o := trust.Offer{File: t.file, Agreed: t.agreed, Plain: len(wants)+len(instead) == 0, Allows: append([]string{
		trust.Line("as an agent it is called", t.config.Name) + ": what may run unasked for the agent that calls it, may for this one"}, texts(wants)...)}
	if len(instead) > 0 {
		o.Allows = append(append(o.Allows, trust.Line("it takes the place of the agent of this name from", instead[0])+", and says:"), trust.Text(t.file.Raw)...)
	}
	return o
}

func texts(wants []asks) (out []string) {
	for _, w := range wants {
		out = append(out, w.what)
	}
	return out
}

// tightened is a template that may not be laxer than what applies to agents that state nothing.
func (t loaded) tightened(most int) (c agent.SpecialistAgentConfig, wants []asks) {
	c = t.config
	c.Bounds, c.Unagreed = []map[string]string{{}}, true
	for _, rule := range slices.Sorted(maps.Keys(c.Approval)) {
		if agent.Gate(c.Approval[rule]) == agent.GateAuto && !unasked(rule) {
			wants = append(wants, asks{t.lines["approval "+rule], trust.Line("approval auto of", rule)})
		}
	}
	note := func(key string, changed bool, what string) {
		if changed {
			wants = append(wants, asks{max(t.lines[plainKey(key)], 1), what})
		}
	}
	limit := agent.DefaultSubAgentSteps
	if most > 0 {
		limit = min(limit, most)
	}
	if c.MaxSteps < 0 || c.MaxSteps > limit {
		c.MaxSteps = 0
	}
	note("maxSteps", c.MaxSteps != t.config.MaxSteps, "maxSteps "+strconv.Itoa(max(t.config.MaxSteps, 0)))
	if c.OnDeny != agent.OnDenyEnd {
		c.OnDeny = ""
	}
	note("onDeny", c.OnDeny != t.config.OnDeny, "onDeny "+t.config.OnDeny)
	note("model", c.Model != "", trust.Line("model", c.Model))
	note("provider", c.Provider != "", trust.Line("provider", c.Provider))
	c.Model, c.Provider = "", ""
	return c, wants
}

// anyCall is a call of any built-in tool; of web_fetch, to a host that nobody named.
var anyCall = agent.ToolRun{Args: json.RawMessage(`{"url":"https://host.invalid/"}`)}

// unasked reports whether a rule of auto says of a built-in tool what applies anyway.
func unasked(rule string) bool {
	specs := tool.Builtin(tool.Options{})
	i := slices.IndexFunc(specs, func(t agent.Tool) bool { return t.Spec().Name == rule })
	return i >= 0 && specs[i].Spec().ReadOnly && tool.Gate(specs[i].Spec(), anyCall, nil) == agent.GateAuto
}

// Offers are the files of the project that are in force or wait to be, with what each may
// do once a person agrees to it.
func (c *Catalog) Offers() []trust.Offer { return slices.Clone(c.offers) }

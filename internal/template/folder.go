package template

import (
	"cmp"
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

// settle sees to what the project's files may do: before an agreement they only make
// stricter what would apply without them.
func (c *Catalog) settle(book trust.Book, most int) (warnings []Warning) {
	for _, name := range c.Names() {
		t := c.byName[name]
		if t.file == nil {
			continue
		}
		var without agent.SpecialistAgentConfig
		if t.below != nil {
			without = *t.below
		}
		offer := trust.Offer{File: *t.file, Agreed: book.Agreed(*t.file),
			Allows: []string{trust.Line("as an agent it is called", name) + ": what may run unasked for the agent that calls it, may for this one"}}
		strict, wants := t.tightened(without, most)
		offer.Plain = len(wants) == 0
		for _, w := range wants {
			offer.Allows = append(offer.Allows, w.what)
		}
		c.offers = append(c.offers, offer)
		if offer.Agreed {
			continue
		}
		t.config = strict
		c.byName[name] = t
		if len(wants) > 0 {
			warnings = append(warnings, Warning{File: t.config.Source, Line: wants[0].line, Asks: true,
				Text: fmt.Sprintf("before you agree to this file, it makes nothing laxer, so this counts only as far as it is stricter: %s; %s shows it and asks",
					trust.Lines(texts(wants)), trust.Command(t.file.Folder))})
		}
	}
	return warnings
}

func texts(wants []asks) (out []string) {
	for _, w := range wants {
		out = append(out, w.what)
	}
	return out
}

// tightened is a template that may not be laxer than the one without it, and than what
// applies to agents that state nothing.
func (t loaded) tightened(without agent.SpecialistAgentConfig, most int) (c agent.SpecialistAgentConfig, wants []asks) {
	c = t.config
	c.Bounds, c.Unagreed = []map[string]string{{}}, true
	if without.Approval != nil {
		c.Bounds = append(c.Bounds, without.Approval)
	}
	for _, rule := range slices.Sorted(maps.Keys(c.Approval)) {
		if agent.Gate(c.Approval[rule]) == agent.GateAuto && !unasked(rule, c.Bounds) {
			wants = append(wants, asks{t.lines["approval "+rule], trust.Line("approval auto of", rule)})
		}
	}
	note := func(key string, changed bool, value string) {
		if changed {
			wants = append(wants, asks{max(t.lines[plainKey(key)], 1), key + " " + value})
		}
	}
	c.Tools = agent.IntersectTools(t.config.Tools, without.Tools)
	all := "all"
	if t.config.Tools != nil {
		all = trust.Line("of", t.config.Tools...)
	}
	note("tools", !slices.Equal(c.Tools, t.config.Tools), all)
	c.MaxSteps = fewer(t.config.MaxSteps, without.MaxSteps, most)
	note("maxSteps", c.MaxSteps != t.config.MaxSteps, strconv.Itoa(max(t.config.MaxSteps, 0)))
	c.TimeoutMs = min(cmp.Or(c.TimeoutMs, without.TimeoutMs), cmp.Or(without.TimeoutMs, c.TimeoutMs))
	note("timeoutMs", c.TimeoutMs != t.config.TimeoutMs, strconv.FormatInt(t.config.TimeoutMs, 10))
	if c.OnDeny != agent.OnDenyEnd && without.OnDeny != agent.OnDenyContinue {
		c.OnDeny = without.OnDeny
	}
	note("onDeny", c.OnDeny != t.config.OnDeny, t.config.OnDeny)
	return c, wants
}

// fewer is a limit of model calls that is not above the one without it. One that is not
// stated is most in main threads, and the default in others.
func fewer(want, without, most int) int {
	limit := without
	if without == 0 {
		if limit = agent.DefaultSubAgentSteps; most > 0 {
			limit = min(limit, most)
		}
	}
	if want == 0 && without != agent.NoStepLimit || want != without && limit > 0 && (want < 0 || want > limit) {
		return without
	}
	return want
}

// anyCall is a call of any built-in tool; of web_fetch, to a host that nobody named.
var anyCall = agent.ToolRun{Args: json.RawMessage(`{"url":"https://host.invalid/"}`)}

// unasked reports whether a rule of auto says of a built-in tool what applies anyway.
func unasked(rule string, bounds []map[string]string) bool {
	specs := tool.Builtin(tool.Options{})
	i := slices.IndexFunc(specs, func(t agent.Tool) bool { return t.Spec().Name == rule })
	return i >= 0 && specs[i].Spec().ReadOnly && !slices.ContainsFunc(bounds, func(b map[string]string) bool {
		return tool.Gate(specs[i].Spec(), anyCall, b) != agent.GateAuto
	})
}

// Offers are the files of the project that are in force, with what each may do once a
// person agrees to it.
func (c *Catalog) Offers() []trust.Offer { return slices.Clone(c.offers) }

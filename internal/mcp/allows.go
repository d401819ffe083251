package mcp

import (
	"maps"
	"slices"

	"github.com/spool-agents/spool/internal/trust"
)

// allows says all that a server may do once its file is agreed to, as the file has it:
// variables stand there by name, as their values may be secrets.
func (e entry) allows(c ServerConfig, variables []string) (lines []string) {
	say := func(what string, values ...string) {
		if len(values) > 0 {
			lines = append(lines, trust.Line("MCP server", c.ID)+" "+trust.Line(what, values...))
		}
	}
	if c.Command != "" {
		say("runs", texts(append(e.Command, e.Args...))...)
	}
	if e.URL != "" {
		say("is reached at", e.URL)
	}
	if e.Dir != "" {
		say("is started in", e.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		say("gets the variable", name, string(e.Env[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		say("gets the header", name, string(e.Headers[name]))
	}
	say("gets from the worker's environment the value of", slices.Compact(slices.Sorted(slices.Values(variables)))...)
	if e.Trusted {
		say("is believed when it calls a tool read-only: trust is", "true")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Gates)) {
		say("has the approval", name, string(c.Gates[name]))
	}
	say("offers only", e.IncludeTools...)
	say("does not offer", c.Exclude...)
	say("has what is not known here and does nothing", e.unknown...)
	return lines
}

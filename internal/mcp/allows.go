package mcp

import (
	"maps"
	"slices"

	"github.com/spool-agents/spool/internal/trust"
)

// allows says all that a server may do once its file is agreed to, as the file has it:
// variables stand there by name, as their values may be secrets.
func (e entry) allows(c ServerConfig) (lines []string) {
	say := func(what string, values ...string) {
		if len(values) > 0 {
			lines = append(lines, trust.Line("MCP server", c.ID)+" "+trust.Line(what, values...))
		}
	}
	if e.Command != "" {
		say("runs", append([]string{e.Command}, e.Args...)...)
	}
	for _, url := range []string{e.URL, e.HTTPURL, e.ServerURL} {
		if url != "" {
			say("is reached at", url)
		}
	}
	if e.Dir != "" {
		say("is started in", e.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		say("gets the variable", name, e.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		say("gets the header", name, e.Headers[name])
	}
	say("gets from the worker's environment the value of", e.variables()...)
	if e.Trusted {
		say("is believed when it calls a tool read-only: trust is", "true")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Gates)) {
		say("has the approval", name, string(c.Gates[name]))
	}
	say("offers only", e.IncludeTools...)
	say("does not offer", c.Exclude...)
	return lines
}

// variables are the names of ${NAME} in an entry.
func (e entry) variables() (names []string) {
	texts := append([]string{e.Command, e.Dir, firstOf(e.URL, e.HTTPURL, e.ServerURL)}, e.Args...)
	texts = append(slices.AppendSeq(texts, maps.Values(e.Env)), slices.Collect(maps.Values(e.Headers))...)
	for _, text := range texts {
		for _, m := range variable.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

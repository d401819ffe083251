package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/trust"
)

// sections are the keys under which programs have their servers.
const sections = " mcpservers servers context_servers mcp mcp.servers "

// addServers adds the entries of all servers of a JSON object, and notes those that it has
// in more than one section.
func addServers(found map[string]json.RawMessage, twice map[string]bool, raw []byte) error {
	var doc, entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("is not the JSON expected, {\"mcpServers\": {NAME: {\"command\": …} or {\"url\": …}}}: %s", agent.PlainProblem(err.Error()))
	}
	known := len(doc) == 0
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		name := strings.ToLower(key)
		if !strings.Contains(sections, " "+name+" ") {
			continue
		}
		known, entries = true, nil
		if err := json.Unmarshal(doc[key], &entries); err != nil {
			return fmt.Errorf("has %s that is no object of servers: %s", key, agent.PlainProblem(err.Error()))
		}
		for id, e := range entries {
			switch _, there := found[id]; {
			case name == "mcp" && id == "servers":
				if err := addServers(found, twice, encoded(fields{"servers": e})); err != nil {
					return err
				}
			case name == "mcp" && !bytes.HasPrefix(e, []byte("{")): // a setting
			default:
				found[id], twice[id] = e, there
			}
		}
	}
	if !known {
		return fmt.Errorf("names no servers: it has %s, and none of%s", cutLine(strings.Join(slices.Sorted(maps.Keys(doc)), ", ")), strings.Replace(sections, "mcps", "mcpS", 1))
	}
	return nil
}

var (
	comment  = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/`)
	trailing = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|,\s*[}\]]`)
)

// plainJSON blanks what JSON does not have, and programs take: a byte order mark, comments,
// commas before a closing bracket.
func plainJSON(raw []byte) []byte {
	raw = comment.ReplaceAllFunc(bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF")), func(text []byte) []byte {
		if text[0] == '/' {
			return []byte(" ")
		}
		return text
	})
	return trailing.ReplaceAllFunc(raw, func(text []byte) []byte { return bytes.TrimPrefix(text, []byte(",")) })
}

// variable is ${NAME}, ${env:NAME} or {env:NAME}, the first two also with :-DEFAULT, what
// other programs replace by means of their own, and $NAME as the whole of a text. Anything
// else stays as it is.
var variable = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*|/)(:-([^}]*))?\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\}|\$\{(?:input|command|config):[^}]*\}|\{file:[^}]*\}|^\$([A-Z][A-Z0-9_]+)$`)

// expander replaces variables in the entry of a server.
type expander struct {
	env     func(string) string
	places  map[string]string // by the names that other programs have for them
	used    []string          // names of the environment
	problem string            // the first one
}

// refuse keeps the first reason why an entry cannot be used.
func (x *expander) refuse(format string, args ...any) {
	x.problem = cmp.Or(x.problem, fmt.Sprintf(format, args...))
}

func (x *expander) text(s string) string {
	return variable.ReplaceAllStringFunc(s, func(ref string) string {
		m := variable.FindStringSubmatch(ref)
		name := m[1] + m[4] + m[5]
		if v := x.places[name]; v != "" {
			return v
		}
		if name == "" {
			x.refuse("it refers to %s, and nothing here asks for that or looks it up: set a variable of the worker's environment, and write ${NAME}", ref)
			return ""
		}
		x.used = append(x.used, name)
		if v := x.env(name); v != "" || m[2] != "" {
			return cmp.Or(v, m[3])
		}
		x.refuse("the environment has no %s, which it refers to as ${%[1]s}: set it for the worker, or write ${%[1]s:-DEFAULT}", name)
		return ""
	})
}

// path is text in which ~ is the person's own folder.
func (x *expander) path(s string) string {
	if s == "~" || strings.HasPrefix(s, "~/") {
		s = "${userHome}" + s[1:]
	}
	return x.text(s)
}

func (x *expander) all(in map[string]word) map[string]string {
	out := make(map[string]string, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		out[k] = x.text(string(in[k]))
	}
	return out
}

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

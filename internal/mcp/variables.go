package mcp

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

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

func newExpander(env func(string) string, workspace string) *expander {
	return &expander{env: env, places: map[string]string{
		"workspaceFolder": workspace, "workspaceFolderBasename": filepath.Base(workspace), "userHome": env("HOME"), "pathSeparator": "/", "/": "/",
	}}
}

// refuse keeps the first reason why an entry cannot be used.
func (x *expander) refuse(format string, args ...any) {
	x.problem = firstOf(x.problem, fmt.Sprintf(format, args...))
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
			return firstOf(v, m[3])
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

package models

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/spool-agents/spool/agent"
)

// parse reads a table. Errors start with FILE:LINE where the line is known.
func parse(path string, body []byte) (content, error) {
	var f content
	tree, err := parser.ParseBytes(body, 0)
	if err != nil {
		return f, notYAML(path, err)
	}
	if len(tree.Docs) == 0 {
		return f, nil
	}
	if len(tree.Docs) > 1 {
		return f, wrong(path, 0, "holds %d YAML documents: put all into one, without ---", len(tree.Docs))
	}
	if err := yaml.UnmarshalWithOptions(body, &f, yaml.DisallowUnknownField()); err != nil {
		return f, notYAML(path, err)
	}
	at := linesOf(tree)
	for i, r := range f.Models {
		if problem := r.problem(); problem != "" {
			return f, wrong(path, at.rows[i], "row %d %s", i+1, problem)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Providers)) {
		p := f.Providers[name]
		if problem := p.problem(name); problem != "" {
			return f, wrong(path, at.providers[name], "provider %s", problem)
		}
		p.Source = fmt.Sprintf("%s:%d", path, at.providers[name])
		f.Providers[name] = p
	}
	return f, nil
}

func (r Row) problem() string {
	switch {
	case strings.TrimSpace(r.Match) == "":
		return "has no match: name a model, * stands for anything"
	case r.Window < 0, r.MaxOutput < 0, r.Price != nil && (r.Price.Input < 0 || r.Price.Cached < 0 || r.Price.Output < 0):
		return fmt.Sprintf("(%s) has a negative number", r.Match)
	case r.Window > 0 && r.Window < 256:
		return fmt.Sprintf("(%s) has a window of %d tokens: 256 is the least", r.Match, r.Window)
	}
	return ""
}

// variableName is what names of environment variables look like.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// problem does not repeat the values: people write keys and passwords into them.
func (p Provider) problem(name string) string {
	if name == "" || strings.ContainsAny(name, "@ \t") {
		return fmt.Sprintf("%q: a name has no @ and no space", name)
	}
	if u, err := url.Parse(p.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return name + " has no baseUrl of the form http(s)://host/path"
	}
	if p.APIKeyEnv != "" && (!variableName.MatchString(p.APIKeyEnv) || len(p.APIKeyEnv) >= 24 && !strings.Contains(p.APIKeyEnv, "_")) {
		return name + ": apiKeyEnv is no name of an environment variable: name the variable that holds the key, such as MISTRAL_API_KEY, and keep the key itself out of the file"
	}
	return ""
}

type lines struct {
	rows      []int
	providers map[string]int
}

func linesOf(tree *ast.File) lines {
	l := lines{providers: map[string]int{}}
	top, ok := tree.Docs[0].Body.(ast.MapNode)
	if !ok {
		return l
	}
	for it := top.MapRange(); it.Next(); {
		switch part := it.Value().(type) {
		case *ast.SequenceNode:
			for _, row := range part.Values {
				l.rows = append(l.rows, row.GetToken().Position.Line)
			}
		case ast.MapNode:
			for p := part.MapRange(); p.Next(); {
				l.providers[p.Key().GetToken().Value] = p.Key().GetToken().Position.Line
			}
		}
	}
	return l
}

// notYAML keeps the message of the YAML library and leaves out the lines of the file
// that it would print.
func notYAML(path string, err error) error {
	var e yaml.Error
	if errors.As(err, &e) && e.GetToken() != nil {
		at, key := e.GetToken(), ""
		if colon := at.Prev; colon != nil && colon.Value == ":" && colon.Prev != nil {
			key = colon.Prev.Value + ": "
		}
		return wrong(path, at.Position.Line, "%s", agent.PlainProblem(key+e.GetMessage()))
	}
	return wrong(path, 0, "%s", yaml.FormatError(err, false, false))
}

func wrong(path string, line int, format string, args ...any) error {
	if line > 0 {
		path = fmt.Sprintf("%s:%d", path, line)
	}
	return agent.Errorf(agent.CodeInvalid, "%s: no table of models: %s: mend it, or take the file away", path, fmt.Sprintf(format, args...))
}

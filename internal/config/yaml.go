package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/spool-agents/spool/internal/trust"
)

// readYAML reads dir/spool.yaml: a flat mapping of setting names to scalars.
// Problems are returned as sentences that name file, line and what is allowed.
func readYAML(dir string) (trust.File, layer, []string) {
	read, err := trust.Read(dir, "spool.yaml")
	path := read.Path()
	if errors.Is(err, fs.ErrNotExist) {
		return read, nil, nil
	}
	if err != nil {
		return read, nil, []string{fmt.Sprintf("%s cannot be read: %v", path, err)}
	}
	if err := trust.CheckYAML(string(read.Raw)); err != nil {
		return read, nil, []string{path + " " + err.Error()}
	}
	file, err := parser.ParseBytes(read.Raw, 0)
	if err != nil {
		return read, nil, []string{fmt.Sprintf("%s is not valid YAML: %s", path, strings.TrimSpace(yaml.FormatError(err, false, false)))}
	}
	values := layer{}
	var problems []string
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType {
			continue
		}
		mapping, ok := doc.Body.(ast.MapNode)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s must be a mapping of settings to values; allowed: %s", path, settingNames()))
			continue
		}
		for it := mapping.MapRange(); it.Next(); {
			key, node := it.Key().GetToken().Value, it.Value()
			at := fmt.Sprintf("%s:%d", path, it.Key().GetToken().Position.Line)
			if _, ok := known[key]; !ok {
				problems = append(problems, fmt.Sprintf("%s: setting %q does not exist; allowed: %s", at, key, settingNames()))
				continue
			}
			if node.Type() == ast.NullType {
				continue
			}
			if _, scalar := node.(ast.ScalarNode); !scalar {
				problems = append(problems, fmt.Sprintf("%s: %s must be a single value, not a list or mapping", at, key))
				continue
			}
			var v any
			if err := yaml.NodeToValue(node, &v); err != nil {
				problems = append(problems, fmt.Sprintf("%s: %s cannot be read: %v", at, key, err))
				continue
			}
			values[key] = found{strings.TrimSpace(fmt.Sprint(v)), at, dir}
		}
	}
	return read, values, problems
}

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/spool-agents/spool/internal/trust"
)

// When the spool.yaml of a folder sets something before a person has agreed to it.
const (
	folderAlways = "yes"
	folderLower  = "if lower"
	folderLimit  = "if lower, 0 = no limit"
	folderMore   = "adds names"
)

func ruled(k kind, folder string) kind {
	k.folder = folder
	return k
}

// harmless settings are taken from any folder.
func harmless(k kind) kind { return ruled(k, folderAlways) }

// lower is taken if it is less than what applies otherwise; of a limit, 0 means none.
func lower(k kind) kind { return ruled(k, folderLower) }
func limit(k kind) kind { return ruled(k, folderLimit) }

// more is a list to which a folder may add.
func more(k kind) kind { return ruled(k, folderMore) }

// asked is a setting that a folder may not make alone.
type asked struct {
	name string
	found
}

// narrowed leaves of a folder's settings what counts in any folder, beside below, the
// settings of home. The others need an agreement.
func narrowed(folder, below layer, at place) (kept layer, asks []asked) {
	kept = layer{}
	for _, s := range settings(new(Config)) {
		f := folder[s.name]
		if f.value == "" || s.name == Home {
			continue
		}
		otherwise := below[s.name].value
		if s.folder == folderMore && otherwise != "" {
			f.value += "," + otherwise
		}
		if otherwise == "" {
			otherwise = s.fallback
		}
		if s.folder == folderAlways || s.folder == folderMore || s.folder != "" && s.amount(f.value, at) <= s.amount(otherwise, at) {
			kept[s.name] = f
		} else {
			asks = append(asks, asked{s.name, f})
		}
	}
	return kept, asks
}

// amount is how much a value allows. One that is not valid is reported where it counts.
func (s setting) amount(v string, at place) float64 {
	v, err := s.kind.read(v, at)
	n, noNumber := strconv.ParseFloat(v, 64)
	if d, noDuration := time.ParseDuration(v); noNumber != nil && noDuration == nil {
		n, noNumber = float64(d), nil
	}
	switch {
	case err != nil || noNumber != nil:
		return 0
	case n == 0 && s.folder == folderLimit:
		return math.Inf(1)
	}
	return n
}

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
		text := strings.TrimSpace(yaml.FormatError(err, false, false))
		if strings.Contains(text, "mapping value") {
			text += "; put a value that ends with a colon, or has one before a blank, in quotes"
		}
		return read, nil, []string{fmt.Sprintf("%s is not valid YAML: %s", path, text)}
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
				problems = append(problems, fmt.Sprintf("%s: %s cannot be read: %s", at, key, strings.TrimSpace(yaml.FormatError(err, false, false))))
				continue
			}
			values[key] = found{strings.TrimSpace(fmt.Sprint(v)), at, dir}
		}
	}
	return read, values, problems
}

package template

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	yamlparser "github.com/goccy/go-yaml/parser"
)

// field is one entry of the front matter.
type field struct {
	key   string
	value any // as YAML decodes it: string, number, bool, []any, map[string]any, nil
	line  int // in the file
	lines map[string]int
}

// split takes a file apart. The first line of the front matter is line 2.
func split(text string) (front, body string, ok bool) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\uFEFF"), "\r\n", "\n")
	rest, has := strings.CutPrefix(text, "---\n")
	if !has {
		return "", text, true
	}
	front, body, ok = strings.Cut("\n"+rest+"\n", "\n---\n")
	return strings.TrimPrefix(front, "\n"), body, ok
}

// readFront reads the front matter; problem is empty, or what is wrong in line.
func readFront(front string) (fields []field, problem string, line int) {
	file, err := yamlparser.ParseBytes([]byte(front), 0)
	if err != nil {
		if quoted, qerr := yamlparser.ParseBytes([]byte(quoteTexts(front)), 0); qerr == nil {
			file, err = quoted, nil
		}
	}
	if err != nil {
		line, what := yamlError(err)
		return nil, "the front matter is not valid YAML: " + what, line
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		mapping, ok := doc.Body.(ast.MapNode)
		if !ok {
			return nil, "the front matter is not a mapping of keys to values", 2
		}
		var alias aliasLine
		if ast.Walk(&alias, doc.Body); alias > 0 {
			return nil, "the front matter has a YAML alias, a few of which make a value that is endless", int(alias)
		}
		for it := mapping.MapRange(); it.Next(); {
			f := field{key: it.Key().GetToken().Value, line: lineOf(it.Key()), lines: map[string]int{}}
			if err := yaml.NodeToValue(it.Value(), &f.value); err != nil {
				return nil, fmt.Sprintf("%s cannot be read: %v", f.key, err), f.line
			}
			if inner, ok := it.Value().(ast.MapNode); ok {
				for in := inner.MapRange(); in.Next(); {
					f.lines[in.Key().GetToken().Value] = lineOf(in.Key())
				}
			}
			fields = append(fields, f)
		}
	}
	return fields, "", 0
}

// aliasLine is where the last alias stands in the file.
type aliasLine int

// Visit looks at a node.
func (l *aliasLine) Visit(n ast.Node) ast.Visitor {
	if n.Type() == ast.AliasType {
		*l = aliasLine(n.GetToken().Position.Line + 1)
	}
	return l
}

// lineOf is where a key stands in the file; the front matter begins in line 2.
func lineOf(key ast.MapKeyNode) int { return key.GetToken().Position.Line + 1 }

// textLine is the line of a key whose value is a text for people.
var textLine = regexp.MustCompile(`(?m)^(name|description): *([^\s"'|>\[{&*!#].*)$`)

// quoteTexts quotes the texts that stand in one line without quotes: agent files often
// hold a description with colons that YAML does not allow and Claude Code takes.
func quoteTexts(front string) string {
	return textLine.ReplaceAllStringFunc(front, func(line string) string {
		key, text, _ := strings.Cut(line, ":")
		return key + ": '" + strings.ReplaceAll(strings.TrimSpace(text), "'", "''") + "'"
	})
}

// yamlError is what is wrong, and the line of the file.
func yamlError(err error) (line int, what string) {
	line, what = 1, err.Error()
	var e yaml.Error
	if errors.As(err, &e) {
		what = e.GetMessage()
		if t := e.GetToken(); t != nil && t.Position != nil {
			line += t.Position.Line
		}
	}
	what, _, _ = strings.Cut(strings.TrimSpace(what), "\n")
	return line, what
}

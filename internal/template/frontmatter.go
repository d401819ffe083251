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
	if body, empty := strings.CutPrefix(rest, "---\n"); empty {
		return "", body, true
	}
	front, body, ok = strings.Cut(rest, "\n---\n")
	if !ok {
		front, ok = strings.CutSuffix(rest, "\n---")
	}
	return front, body, ok
}

// readFront reads the front matter. Agent files often hold a description with
// colons and quotes that YAML does not allow; Claude Code takes such a text as it
// stands, and so is it taken here. What is no YAML even so is read line by line.
func readFront(front string) (fields []field, problem string, line int) {
	file, err := yamlparser.ParseBytes([]byte(front), 0)
	if err != nil {
		if quoted, qerr := yamlparser.ParseBytes([]byte(quoteTexts(front)), 0); qerr == nil {
			file, err = quoted, nil
		}
	}
	if err != nil {
		line, what := yamlError(err)
		return readLines(front), "the front matter is not valid YAML, so it was read line by line: " + what, line
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		mapping, ok := doc.Body.(ast.MapNode)
		if !ok {
			return nil, "the front matter is not a mapping of keys to values, so it was left out", 2
		}
		for it := mapping.MapRange(); it.Next(); {
			f := field{key: it.Key().GetToken().Value, line: it.Key().GetToken().Position.Line + 1, lines: map[string]int{}}
			if err := yaml.NodeToValue(it.Value(), &f.value); err != nil {
				f.value = fmt.Errorf("cannot be read: %w", err)
			}
			if inner, ok := it.Value().(ast.MapNode); ok {
				for in := inner.MapRange(); in.Next(); {
					f.lines[in.Key().GetToken().Value] = in.Key().GetToken().Position.Line + 1
				}
			}
			fields = append(fields, f)
		}
	}
	return fields, "", 0
}

var keyLine = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?$`)

// readLines takes each "key: rest of the line" as it stands; lines that start
// otherwise go on with the value before.
func readLines(front string) []field {
	var fields []field
	for i, line := range strings.Split(front, "\n") {
		m := keyLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			var value any = unquote(strings.TrimSpace(m[2]))
			// Numbers and booleans keep their type.
			var scalar any
			if yaml.Unmarshal([]byte(m[2]), &scalar) == nil {
				switch scalar.(type) {
				case bool, int64, uint64, float64:
					value = scalar
				}
			}
			fields = append(fields, field{key: m[1], value: value, line: i + 2})
		case len(fields) > 0 && strings.TrimSpace(line) != "":
			f := &fields[len(fields)-1]
			text := strings.TrimSpace(line)
			if item, ok := strings.CutPrefix(text, "- "); ok && f.value != "" {
				text = ", " + item // a list goes on
			} else if ok {
				text = item
			} else {
				text = " " + text
			}
			f.value = strings.TrimSpace(fmt.Sprint(f.value) + text)
		}
	}
	return fields
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// textLine is the line of a key whose value is a text for people.
var textLine = regexp.MustCompile(`(?m)^(name|description): *([^\s"'|>\[{&*!#].*)$`)

// quoteTexts quotes the texts that stand in one line without quotes.
func quoteTexts(front string) string {
	return textLine.ReplaceAllStringFunc(front, func(line string) string {
		key, text, _ := strings.Cut(line, ":")
		return key + ": '" + strings.ReplaceAll(strings.TrimSpace(text), "'", "''") + "'"
	})
}

// yamlError is what is wrong, and the line of the file.
func yamlError(err error) (line int, what string) {
	var e yaml.Error
	if !errors.As(err, &e) {
		return 1, firstLine(err.Error())
	}
	line = 1
	if t := e.GetToken(); t != nil && t.Position != nil {
		line += t.Position.Line // the front matter begins in line 2
	}
	return line, firstLine(e.GetMessage())
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

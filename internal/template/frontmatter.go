package template

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	yamlparser "github.com/goccy/go-yaml/parser"
)

type field struct {
	key   string
	value any // as YAML decodes it: string, number, bool, []any, map[string]any, nil
	line  int // in the file
	lines map[string]int
}

// unseen are characters that an editor does not show.
func unseen(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

var (
	closing = regexp.MustCompile(`(?m)^(?:---|\.\.\.)[ \t\x{a0}]*$`)
	indent  = regexp.MustCompile(`(?m)^[ \t\x{a0}]+`)
)

// split takes a file apart: front matter begins with a line ---, behind nothing but
// blanks. Its lines have the numbers of the file, less one. missing is the line of a
// front matter that has no end.
func split(text string) (front, body string, missing int) {
	begun := strings.TrimLeftFunc(text, unseen)
	first, rest, _ := strings.Cut(begun, "\n")
	if strings.TrimRightFunc(first, unseen) != "---" {
		return "", text, 0
	}
	above := strings.Count(text[:len(text)-len(begun)], "\n")
	end := closing.FindStringIndex(rest)
	if end == nil {
		return "", "", above + 1
	}
	// YAML knows blanks only.
	front = indent.ReplaceAllStringFunc(rest[:end[0]], func(s string) string {
		return strings.NewReplacer("\t", "  ", "\u00a0", " ").Replace(s)
	})
	return strings.Repeat("\n", above) + front, strings.TrimPrefix(rest[end[1]:], "\n"), 0
}

var (
	// fence is what may stand around front matter, for other programs or by mistake.
	fence = regexp.MustCompile("^(?:[-\\x{2010}-\\x{2015}\\x{2212}]{2}|[\\x{2014}\\x{2015}]|\\+{3}|={3}|~{3}|`{3}|;{3}|[{]$|<!--)")
	// keyLine is a line with a key of front matter; limitLine one whose loss would allow more.
	keyLine   = regexp.MustCompile(`^[-*_{"' \t]*(?:name|description|model|provider|temperature|topP|stream|shareContext|color|` + limitKeys + `)["'*_]*[ \t]*[:=]`)
	limitLine = regexp.MustCompile(`^(?:[-*_{"' \t]*|\{.*")(?:` + limitKeys + `)["'*_]*[ \t]*[:=]`)
)

const limitKeys = `tools|disallowedTools|approval|onDeny|maxSteps|maxTurns|maxTokens|timeoutMs`

// unread looks for front matter where split does not, so that what it denies is not
// taken for a prompt: before the first line of prose in any shape, behind it as a block
// between two lines. Code is left out. line is 0 if there is none.
func unread(body string) (line int, what string) {
	lines := strings.Split(body, "\n")
	fenced, prose, skip := -1, false, ""
	for i, l := range lines {
		l = strings.TrimFunc(l, unseen)
		switch {
		case skip != "":
			if strings.Contains(l, skip) {
				skip = ""
			}
		case prose && strings.HasPrefix(l, "```"):
			skip = "```"
		case strings.HasPrefix(l, "<!--") && !strings.Contains(l, "-->"):
			skip = "-->"
		case keyLine.MatchString(l):
			limits, ends := block(lines[i:])
			if prose && fenced == i-1 && fenced >= 0 && limits && ends || !prose && (fenced >= 0 || limits || ends) {
				return i + 1, "this looks like front matter, but is not at the beginning of the file between two lines ---: put it there, or take it out"
			}
			prose = true
		case fence.MatchString(l):
			fenced = i
		case l != "" && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "//"):
			prose = true
		}
	}
	return 0, ""
}

// block reports whether there are limits in lines that may be front matter, and whether a
// line ends it.
func block(lines []string) (limits, ends bool) {
	for _, l := range lines {
		l = strings.TrimFunc(l, unseen)
		if ends = fence.MatchString(l); ends || l == "" {
			break
		}
		limits = limits || limitLine.MatchString(l)
	}
	return limits, ends
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

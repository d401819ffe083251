package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

//go:embed glob.md
var globDoc string

// tooSlow ends a search that ran out of time.
const tooSlow = "[stopped: the search took too long; use a narrower pattern or path]"

type globArgs struct {
	Pattern string `json:"pattern"`
}

// Glob finds files by name, in the order of their paths.
func Glob() agent.Tool {
	spec := readOnly("glob", globDoc, `{"type":"object","properties":{
		"pattern":{"type":"string","minLength":1,"description":"Pattern relative to the workspace root, e.g. **/*.go"}},
		"required":["pattern"],"additionalProperties":false}`, time.Minute)
	return Func(spec, func(ctx context.Context, r agent.ToolRun, a globArgs) agent.ToolResult {
		return inWorkspace(r, func(w *workspace) (string, error) { return w.glob(ctx, a.Pattern) })
	})
}

func (w *workspace) glob(ctx context.Context, pattern string) (string, error) {
	clean := strings.TrimPrefix(pattern, "./")
	if path.IsAbs(clean) {
		rel, err := w.rel(clean)
		if err != nil {
			return "", err
		}
		clean = rel
	}
	if strings.HasPrefix(path.Clean(clean), "..") {
		return "", outside(pattern)
	}
	re, err := globRegexp(clean)
	if err != nil {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("the pattern %q is not valid: %v", pattern, err)}
	}
	var found []string
	total := 0
	err = w.walk(ctx, ".", clean, func(p string, _ fs.DirEntry) error {
		if re.MatchString(p) {
			if total++; total <= maxEntries {
				found = append(found, shown(p))
			}
		}
		return nil
	})
	late := errors.Is(err, context.DeadlineExceeded) && total > 0 // a part is better than nothing
	switch {
	case err != nil && !late:
		return "", err
	case total == 0:
		return "No file matches " + pattern + ".", nil
	case total > maxEntries:
		found = append(found, fmt.Sprintf("[… %d more files; use a narrower pattern]", total-maxEntries))
	}
	if late {
		found = append(found, tooSlow)
	}
	return strings.Join(found, "\n"), nil
}

// walk visits the files below dir in the order of their paths. Links are not
// followed, unreadable folders and those that only cost time are left out.
func (w *workspace) walk(ctx context.Context, dir, wanted string, visit func(path string, e fs.DirEntry) error) error {
	return fs.WalkDir(w.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if p == dir {
				return err
			}
			return nil
		}
		if !e.IsDir() {
			return visit(p, e)
		}
		if name := e.Name(); p != dir && (name == ".git" || name == "node_modules") && !strings.Contains(wanted, name) {
			return fs.SkipDir
		}
		return nil
	})
}

// globRegexp translates a glob pattern.
func globRegexp(pattern string) (*regexp.Regexp, error) {
	if !strings.Contains(pattern, "/") && pattern != "**" {
		pattern = "**/" + pattern
	}
	var b strings.Builder
	b.WriteString(`^(?s:`)
	depth := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString(`(?:[^/]+/)*`)
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '[':
			end := strings.IndexByte(pattern[i+1:], ']')
			if end < 1 {
				return nil, fmt.Errorf("[ without ]")
			}
			class := pattern[i+1 : i+1+end]
			if class[0] == '!' {
				class = "^" + class[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(class, `\`, `\\`) + "]")
			i += end + 1
		case c == '{':
			depth++
			b.WriteString(`(?:`)
		case c == '}' && depth > 0:
			depth--
			b.WriteString(`)`)
		case c == ',' && depth > 0:
			b.WriteString(`|`)
		default:
			// Bytes of one character stay together, as only ASCII is quoted.
			if c < 0x80 {
				b.WriteString(regexp.QuoteMeta(string(rune(c))))
			} else {
				b.WriteByte(c)
			}
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("{ without }")
	}
	b.WriteString(`)$`)
	return regexp.Compile(b.String())
}

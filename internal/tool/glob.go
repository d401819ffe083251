package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

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
		return "", naming(pattern, errOutside)
	}
	if !strings.Contains(clean, "/") && clean != "**" {
		clean = "**/" + clean // a bare name is looked for in every folder
	}
	if err := boundPattern(clean); err != nil {
		return "", err
	}
	if !doublestar.ValidatePattern(clean) {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("the pattern %q is not valid: a [ or { is not closed", pattern)}
	}
	var found []string
	total := 0
	err := w.walk(ctx, w.root(), clean, func(p place, _ fs.DirEntry) error {
		if doublestar.MatchUnvalidated(clean, p.shown) {
			if total++; total <= maxEntries {
				found = append(found, shown(p.shown))
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

// root is the workspace itself.
func (w *workspace) root() place { return place{folder: w.Root, name: ".", shown: "."} }

// walk visits the files below a folder in the order of their paths. Links are not
// followed, unreadable folders and those that only cost time are left out.
func (w *workspace) walk(ctx context.Context, at place, wanted string, visit func(p place, e fs.DirEntry) error) error {
	folder, entries, err := w.list(at)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	for _, e := range entries {
		p := place{folder: folder, name: e.Name(), path: filepath.Join(at.path, e.Name()), shown: joinPath(at.shown, e.Name()), keys: w.keys}
		switch costly := p.name == ".git" || p.name == "node_modules"; {
		case ctx.Err() != nil:
			return ctx.Err()
		case !e.IsDir():
			err = visit(p, e)
		case !costly || strings.Contains(wanted, p.name):
			if err = w.walk(ctx, p, wanted, visit); !stops(err) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stops reports whether an error of a folder ends the search of all.
func stops(err error) bool {
	return errors.Is(err, fs.SkipAll) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

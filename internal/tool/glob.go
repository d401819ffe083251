package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
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
	spec := quick("glob", globDoc, `{"type":"object","properties":{
		"pattern":{"type":"string","minLength":1,"description":"Pattern relative to the workspace root, e.g. **/*.go"}},
		"required":["pattern"],"additionalProperties":false}`, time.Minute)
	return fileTool(spec, nil, (*workspace).glob)
}

func (w *workspace) glob(ctx context.Context, _ string, a globArgs) (string, error) {
	pattern := a.Pattern
	clean := strings.TrimPrefix(w.unquoted(pattern), "./")
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
	start, rest := w.literalStart(clean)
	defer start.close()
	names, valid := newPattern(start.shown, rest)
	found := map[bool][]string{} // by whether it is literal
	walk := walk{w: w, ctx: ctx, wanted: clean, visit: func(p place, _ bool) error {
		if is, literal := names.matches(p.shown); is {
			found[literal] = append(found[literal], shown(p.shown))
		}
		return nil
	}}
	err := walk.from(start)
	list := found[true]
	if len(list) == 0 {
		list = found[false]
	}
	total := len(list)
	late := errors.Is(err, context.DeadlineExceeded) && total > 0 // a part is better than nothing
	switch {
	case err != nil && !late:
		return "", err
	case total == 0 && !valid:
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("the pattern %q is not valid: a [ or { is not closed", pattern)}
	case total == 0:
		list = []string{"No file matches " + pattern + "."}
	case total > maxEntries:
		list = append(list[:maxEntries], fmt.Sprintf("[… %d more files; use a narrower pattern]", total-maxEntries))
	}
	if late {
		list = append(list, tooSlow)
	}
	return strings.Join(append(list, walk.left.lines()...), "\n"), nil
}

// literalStart is the folder that the first names of a pattern lead to if they are taken
// as they are, links followed, and the rest of the pattern.
func (w *workspace) literalStart(pattern string) (start place, rest string) {
	names := strings.Split(pattern, "/")
	for n := len(names) - 1; n > 0; n-- {
		p, err := w.find(strings.Join(names[:n], "/"), toRead)
		if err == nil {
			if info, err := p.folder.Lstat(p.name); err == nil && info.IsDir() {
				return p, strings.Join(names[n:], "/")
			}
			p.close()
		}
	}
	return place{folder: w.Root, name: ".", path: ".", shown: ".", keys: w.isKey}, pattern
}

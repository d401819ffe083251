package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/output"
	"github.com/spool-agents/spool/internal/tool/textfile"
)

//go:embed grep.md
var grepDoc string

const (
	grepFile = 10 << 20 // larger files are data, not text to search
	grepLine = 500      // bytes shown of a line
)

type grepArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

// Grep searches files line by line, in the order of their paths.
func Grep() agent.Tool {
	spec := readOnly("grep", grepDoc, `{"type":"object","properties":{
		"pattern":{"type":"string","minLength":1,"description":"Regular expression (RE2)."},
		"path":{"type":"string","description":"File or folder to search, relative to the workspace root."}},
		"required":["pattern"],"additionalProperties":false}`, time.Minute)
	return fileTool(spec, func(a grepArgs) string { return a.Path }, (*workspace).grep)
}

func (w *workspace) grep(ctx context.Context, _ string, a grepArgs) (string, error) {
	re, err := compilePattern(a.Pattern)
	if err != nil {
		return "", err
	}
	start, err := w.find(a.Path, toRead)
	if err != nil {
		return "", err
	}
	defer start.close()
	g := grepper{ctx: ctx, re: re}
	g.walk = walk{w: w, ctx: ctx, visit: g.visit}
	if err = g.walk.from(start); errors.Is(err, syscall.ENOTDIR) {
		if !w.mayShow(start, true) {
			return "", naming(start.shown, errRule)
		}
		t, _, err := start.readText()
		if err != nil {
			return "", err
		}
		return g.found(g.file(start.shown, t))
	}
	return g.found(err)
}

type grepper struct {
	ctx   context.Context
	re    *regexp.Regexp
	walk  walk
	out   strings.Builder
	total int
}

func (g *grepper) visit(p place, again bool) error {
	info, err := p.folder.Lstat(p.name)
	switch {
	case again, err != nil, !info.Mode().IsRegular(): // a file that just vanished does not match
		return nil //nolint:nilerr // see above
	case info.Size() > grepFile:
		g.walk.left.add(fmt.Sprintf("larger than %d MB (give the path of one to search it)", grepFile>>20), p.shown)
		return nil
	}
	if !g.walk.w.mayShow(p, false) {
		g.walk.left.add("a rule of this agent does not let them be shown", p.shown)
		return nil
	}
	t, _, err := p.readText()
	switch {
	case err == nil:
		err = g.file(p.shown, t)
	case t.Binary():
		g.walk.left.add("binary", p.shown)
		return nil
	default:
		g.walk.left.add("unreadable", p.shown)
		return nil
	}
	if err == nil && g.total > maxEntries {
		err = fs.SkipAll
	}
	return err
}

// found is what was found before the search ended, perhaps for lack of time.
func (g *grepper) found(err error) (string, error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && g.total > 0:
		return g.String() + tooSlow, nil
	case err != nil && !errors.Is(err, fs.SkipAll):
		return "", err
	}
	return g.String(), nil
}

func (g *grepper) file(path string, t textfile.Text) error {
	text, more := textfile.See(t.Value).Text, true
	for n := 1; more && text != "" && g.total <= maxEntries; n++ {
		var line string
		line, text, more = strings.Cut(text, "\n")
		if err := g.ctx.Err(); err != nil {
			return err
		}
		at := findIn(g.ctx, g.re, line)
		if at == nil {
			continue
		}
		if g.total++; g.total <= maxEntries {
			fmt.Fprintf(&g.out, "%s:%d%s\n", shown(path), n, around(line, at[0], at[1]))
		}
	}
	return nil
}

// around is a line, or of a long one what stands around a match, and where.
func around(line string, from, to int) string {
	if len(line) <= grepLine {
		return ": " + line
	}
	start := max(0, min(from-grepLine/4, len(line)-grepLine))
	end := min(len(line), start+max(grepLine, min(to-start, 4*grepLine)))
	part := output.WholeEnd(output.WholeStart(line[start:end]))
	where := fmt.Sprintf(" (column %d of %d): ", 1+utf8.RuneCountInString(line[:from]), utf8.RuneCountInString(line))
	if start > 0 {
		where += "…"
	}
	if end < len(line) {
		part += "…"
	}
	return where + part
}

func (g *grepper) String() string {
	text := g.out.String()
	switch {
	case g.total == 0:
		text = "No line matches."
	case g.total > maxEntries:
		text += fmt.Sprintf("[stopped after %d lines; use a narrower pattern or path]", maxEntries)
	}
	if left := g.walk.left.lines(); len(left) > 0 {
		text = strings.TrimSuffix(text, "\n") + "\n" + strings.Join(left, "\n")
	}
	return text
}

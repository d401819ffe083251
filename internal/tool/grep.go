package tool

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spool-agents/spool/agent"
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
	check := func(_ context.Context, r agent.ToolRun, a grepArgs) error { return inside(r, a.Path, false) }
	return checked(spec, check, func(ctx context.Context, r agent.ToolRun, a grepArgs) agent.ToolResult {
		return inWorkspace(r, func(w *workspace) (string, error) { return w.grep(ctx, a) })
	})
}

func (w *workspace) grep(ctx context.Context, a grepArgs) (string, error) {
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
	err = w.walk(ctx, start, start.shown, func(p place, e fs.DirEntry) error {
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > grepFile {
			return nil //nolint:nilerr // a file that just vanished does not match
		}
		if !w.mayShow(p) {
			g.hidden++
			return nil
		}
		if data, err := p.read(maxFile); err == nil {
			if err := g.file(p.shown, data); err != nil {
				return err
			}
		}
		if g.total > maxEntries {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, syscall.ENOTDIR) {
		if !w.mayShow(start) {
			return "", naming(start.shown, errRule)
		}
		data, err := start.read(maxFile)
		if err != nil {
			return "", err
		}
		return g.found(g.file(start.shown, data))
	}
	return g.found(err)
}

type grepper struct {
	ctx    context.Context
	re     *regexp.Regexp
	out    strings.Builder
	total  int
	hidden int // files that a rule hides
}

// found is what was found before the search ended, perhaps for lack of time.
func (g *grepper) found(err error) (string, error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && g.total > 0:
		return g.String() + tooSlow, nil
	case err != nil && !errors.Is(err, fs.SkipAll):
		return "", err
	}
	if g.hidden > 0 {
		return fmt.Sprintf("%s\n[%d files were left out: a rule of this agent does not let them be shown]", strings.TrimSuffix(g.String(), "\n"), g.hidden), nil
	}
	return g.String(), nil
}

func (g *grepper) file(path string, data []byte) error {
	if isBinary(data) {
		return nil
	}
	for n := 1; len(data) > 0 && g.total <= maxEntries; n++ {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if err := g.ctx.Err(); err != nil {
			return err
		}
		if !matches(g.ctx, g.re, line) {
			continue
		}
		if g.total++; g.total <= maxEntries {
			text := strings.TrimSuffix(string(line), "\r")
			if len(text) > grepLine {
				text = wholeEnd(text[:grepLine]) + "…"
			}
			fmt.Fprintf(&g.out, "%s:%d: %s\n", shown(path), n, text)
		}
	}
	return nil
}

func (g *grepper) String() string {
	switch {
	case g.total == 0:
		return "No line matches."
	case g.total > maxEntries:
		return g.out.String() + fmt.Sprintf("[stopped after %d lines; use a narrower pattern or path]", maxEntries)
	}
	return g.out.String()
}

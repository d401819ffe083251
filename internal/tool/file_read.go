package tool

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

//go:embed file_read.md
var fileReadDoc string

const (
	readLines = 2000
	readBytes = 256 << 10
)

type fileReadArgs struct {
	Path   string   `json:"path"`
	Offset *float64 `json:"offset"`
	Limit  *float64 `json:"limit"`
}

// FileRead reads a text file, by lines. The size limit keeps one call from
// filling the context of a model.
func FileRead() agent.Tool {
	spec := readOnly("file_read", fileReadDoc, `{"type":"object","properties":{
		"path":{"type":"string","minLength":1,"description":"File, relative to the workspace root."},
		"offset":{"type":"integer","minimum":1,"description":"First line to return, starting at 1."},
		"limit":{"type":"integer","minimum":1,"description":"How many lines to return."}},
		"required":["path"],"additionalProperties":false}`, 30*time.Second)
	check := func(_ context.Context, r agent.ToolRun, a fileReadArgs) error { return inside(r, a.Path, false) }
	return checked(spec, check, func(_ context.Context, r agent.ToolRun, a fileReadArgs) agent.ToolResult {
		return inWorkspace(r, func(w *workspace) (string, error) { return w.fileRead(a) })
	})
}

func (w *workspace) fileRead(a fileReadArgs) (string, error) {
	p, err := w.find(a.Path, toRead)
	if err != nil {
		return "", err
	}
	defer p.close()
	path := p.shown
	data, err := p.read(maxFile)
	if err != nil {
		return "", err
	}
	if isBinary(data) {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s is a binary file of %d bytes", path, len(data))}
	}
	if len(data) == 0 {
		return "(the file is empty)", nil
	}
	lines := strings.SplitAfter(string(data), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	first, count := intOr(a.Offset, 1), intOr(a.Limit, readLines)
	if first > len(lines) {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s has %d lines, so there is no line %d", path, len(lines), first)}
	}
	var b strings.Builder
	next := first
	for ; next <= len(lines) && next < first+count; next++ {
		line := lines[next-1]
		if b.Len()+len(line) > readBytes {
			if b.Len() > 0 {
				break
			}
			line = Clip(line, readBytes) + "\n"
		}
		b.WriteString(line)
	}
	if next <= len(lines) {
		text := strings.TrimSuffix(b.String(), "\n")
		return fmt.Sprintf("%s\n[lines %d to %d of %d; continue with offset %d]", text, first, next-1, len(lines), next), nil
	}
	return b.String(), nil
}

// isBinary looks for NUL near the start, as git and grep do.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0
}

// intOr turns a JSON integer, which may be written 5.0, into an int.
func intOr(f *float64, fallback int) int {
	if f == nil {
		return fallback
	}
	return int(min(*f, 1<<30))
}

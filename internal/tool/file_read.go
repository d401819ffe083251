package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/output"
	"github.com/spool-agents/spool/internal/tool/textfile"
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
	Column *float64 `json:"column"`
}

// FileRead reads a text file, by lines. The size limit keeps one call from
// filling the context of a model.
func FileRead() agent.Tool {
	spec := quick("file_read", fileReadDoc, `{"type":"object","properties":{
		"path":{"type":"string","minLength":1,"description":"File, relative to the workspace root."},
		"offset":{"type":"integer","minimum":1,"description":"First line to return, starting at 1."},
		"limit":{"type":"integer","minimum":1,"description":"How many lines to return."},
		"column":{"type":"integer","minimum":1,"description":"First character to return of the first line, starting at 1; for very long lines."}},
		"required":["path"],"additionalProperties":false}`, 30*time.Second)
	return fileTool(spec, func(a fileReadArgs) string { return a.Path }, (*workspace).fileRead)
}

func (w *workspace) fileRead(_ context.Context, _ string, a fileReadArgs) (string, error) {
	p, err := w.find(a.Path, toRead)
	if err != nil {
		return "", err
	}
	defer p.close()
	t, _, err := p.readText()
	if err != nil {
		return "", err
	}
	text := textfile.See(t.Value).Text
	switch {
	case t.Value == "":
		return "(the file is empty)", nil
	case text == "":
		return "(the file holds control characters only, which are not shown)", nil
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	first, column := intOr(a.Offset, 1), intOr(a.Column, 1)
	if first > len(lines) {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s has %d lines, so there is no line %d", p.shown, len(lines), first)}
	}
	rest, ok := fromColumn(lines[first-1], column)
	if !ok {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("line %d of %s has %d characters, so there is no column %d", first, p.shown, utf8.RuneCountInString(lines[first-1]), column)}
	}
	lines[first-1] = rest
	text, note := cutLines(lines, first, intOr(a.Limit, readLines), column)
	if t.Foreign() {
		guessed := ""
		if t.Guessed {
			guessed = ", as far as its bytes tell"
		}
		note += fmt.Sprintf("\n[the file is written in %s%s; file_edit and file_write keep that]", t.Encoding, guessed)
	}
	if note != "" {
		return strings.TrimSuffix(text, "\n") + note, nil
	}
	return text, nil
}

// cutLines is what of some lines is returned at once, and a note on what follows.
func cutLines(lines []string, first, count, column int) (text, note string) {
	var b strings.Builder
	next := first
	for ; next <= len(lines) && next < first+count; next++ {
		line := lines[next-1]
		if b.Len()+len(line) > readBytes {
			if b.Len() > 0 {
				break
			}
			part := output.WholeEnd(line[:readBytes])
			return part, fmt.Sprintf("\n[a part of line %d of %d; continue with offset %d and column %d]", first, len(lines), first, column+utf8.RuneCountInString(part))
		}
		b.WriteString(line)
	}
	if next <= len(lines) {
		note = fmt.Sprintf("\n[lines %d to %d of %d; continue with offset %d]", first, next-1, len(lines), next)
	}
	return b.String(), note
}

// fromColumn leaves out what of a line stands before a column, which counts from 1.
func fromColumn(line string, column int) (string, bool) {
	for at := range line {
		if column--; column == 0 {
			return line[at:], true
		}
	}
	return "", false
}

// intOr turns a JSON integer, which may be written 5.0, into an int.
func intOr(f *float64, fallback int) int {
	if f == nil {
		return fallback
	}
	return int(min(*f, 1<<30))
}

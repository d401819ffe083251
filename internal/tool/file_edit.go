package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/output"
	"github.com/spool-agents/spool/internal/tool/textfile"
)

//go:embed file_edit.md
var fileEditDoc string

type fileEditArgs struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// FileEdit replaces one occurrence of a text. It is not repeatable: a second run
// would not find the text, or find it inside what the first one wrote.
func FileEdit() agent.Tool {
	spec := readOnly("file_edit", fileEditDoc, `{"type":"object","properties":{
		"path":{"type":"string","minLength":1,"description":"File, relative to the workspace root."},
		"old":{"type":"string","minLength":1,"description":"The exact text to replace; must occur once."},
		"new":{"type":"string","description":"The text to put in its place."}},
		"required":["path","old","new"],"additionalProperties":false}`, 30*time.Second)
	spec.ReadOnly, spec.Repeatable = false, false
	return fileTool(spec, func(a fileEditArgs) string { return a.Path }, (*workspace).fileEdit)
}

func (w *workspace) fileEdit(ctx context.Context, callID string, a fileEditArgs) (string, error) {
	p, err := w.find(a.Path, toChange)
	if err != nil {
		return "", err
	}
	defer p.close()
	unlock, err := p.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	t, data, err := p.readText()
	if err != nil {
		return "", err
	}
	if !t.Exact(data) {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s is written in %s, but has bytes that are not, which an edit would change; use the shell", p.shown, t.Encoding)}
	}
	c, err := changeOf(t.Value, a.Old, a.New, p.shown)
	if err != nil {
		return "", err
	}
	value := t.Value[:c.from] + c.by + t.Value[c.to:]
	now := t.As(value)
	if data, err = now.Encode(value); err != nil {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s was not edited: %v; use other characters, or file_write, which makes the file UTF-8", p.shown, err)}
	}
	note, err := p.replace(callID, data)
	if err != nil {
		return "", err
	}
	if now.Encoding != t.Encoding {
		note = fmt.Sprintf(" The file is written in %s now, as it declares.", now.Encoding) + note
	}
	if c.hidden > 0 {
		note = " What was replaced held control characters, which file_read does not show." + note
	}
	return fmt.Sprintf("Edited %s at line %d.%s", p.shown, c.line, note), nil
}

type change struct {
	from, to int
	by       string
	line     int
	hidden   int // pieces that are not shown, and replaced too
}

// changeOf finds the text to replace: as file_read shows it, or as the file has it. What
// both texts have in common stays as it is.
func changeOf(value, old, by, path string) (c change, err error) {
	seen, want := textfile.See(value), textfile.See(old)
	by = strings.ReplaceAll(by, "\r\n", "\n")
	text, find := seen.Text, want.Text
	if find == "" || !strings.Contains(text, find) {
		text, find = value, old
	}
	switch n := strings.Count(text, find); {
	case n == 0:
		return c, &toolError{agent.ErrValidationFailed, "the text to replace does not occur in " + path + "; read the file and copy it exactly"}
	case find == by:
		return c, &toolError{agent.ErrInvalidInput, "old and new are the same, so there is nothing to change"}
	case n > 1:
		return c, &toolError{agent.ErrValidationFailed, fmt.Sprintf("the text to replace occurs %d times in %s; include more of the lines around it", n, path)}
	}
	c.from = strings.Index(text, find)
	c.to = c.from + len(find)
	c.line = 1 + strings.Count(strings.ReplaceAll(text[:c.from], "\r", "\n"), "\n")
	if text == seen.Text && want.Hidden(0, len(old)) == 0 {
		head, tail := common(find, by)
		c.from, c.to, by = c.from+head, c.to-tail, by[head:len(by)-tail]
	}
	if text == seen.Text {
		c.from, c.to = seen.Range(c.from, c.to)
		c.hidden = seen.Hidden(c.from, c.to) - want.Hidden(0, len(old))
	}
	c.by = strings.ReplaceAll(by, "\n", lineEndAt(value, c.from))
	return c, nil
}

// common is how much two texts have in common at their start and at their end.
func common(a, b string) (head, tail int) {
	most := min(len(a), len(b))
	for head < most && a[head] == b[head] {
		head++
	}
	head = len(output.WholeEnd(a[:head]))
	for tail < most-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, len(output.WholeStart(a[len(a)-tail:]))
}

// lineEndAt is how lines end at a place of a file: in a few files they end differently.
func lineEndAt(value string, at int) string {
	end := at + strings.IndexByte(value[at:], '\n')
	if end < at {
		end = strings.LastIndexByte(value[:at], '\n')
	}
	if end < 0 {
		return textfile.LineEnd(value)
	}
	return textfile.LineEnd(value[max(0, end-1) : end+1])
}

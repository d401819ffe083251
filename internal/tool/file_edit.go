package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
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
	check := func(_ context.Context, r agent.ToolRun, a fileEditArgs) error { return inside(r, a.Path, true) }
	return checked(spec, check, func(ctx context.Context, r agent.ToolRun, a fileEditArgs) agent.ToolResult {
		return inWorkspace(r, func(w *workspace) (string, error) { return w.fileEdit(ctx, r.CallID, a) })
	})
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
	data, err := p.read(maxFile)
	if err != nil {
		return "", err
	}
	text, old, replacement := string(data), a.Old, a.New
	n := strings.Count(text, old)
	if n == 0 && strings.Contains(text, "\r\n") && !strings.Contains(old, "\r") {
		// Models write \n; a file with Windows line ends keeps them.
		old = strings.ReplaceAll(old, "\n", "\r\n")
		replacement = strings.ReplaceAll(strings.ReplaceAll(replacement, "\r\n", "\n"), "\n", "\r\n")
		n = strings.Count(text, old)
	}
	switch {
	case old == replacement && n > 0:
		return "", &toolError{agent.ErrInvalidInput, "old and new are the same, so there is nothing to change"}
	case n == 0:
		return "", &toolError{agent.ErrValidationFailed, "the text to replace does not occur in " + p.shown + "; read the file and copy it exactly"}
	case n > 1:
		return "", &toolError{agent.ErrValidationFailed, fmt.Sprintf("the text to replace occurs %d times in %s; include more of the lines around it", n, p.shown)}
	}
	at := strings.Index(text, old)
	if err := p.replace(callID, []byte(text[:at]+replacement+text[at+len(old):])); err != nil {
		return "", err
	}
	return fmt.Sprintf("Edited %s at line %d.", p.shown, 1+strings.Count(text[:at], "\n")), nil
}

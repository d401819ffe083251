package tool

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

//go:embed file_write.md
var fileWriteDoc string

type fileWriteArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// FileWrite writes a whole file. It may run twice: the second run writes the
// same bytes and says the same, so that nobody can tell.
func FileWrite() agent.Tool {
	spec := readOnly("file_write", fileWriteDoc, `{"type":"object","properties":{
		"path":{"type":"string","minLength":1,"description":"File, relative to the workspace root."},
		"content":{"type":"string","description":"The whole new content."}},
		"required":["path","content"],"additionalProperties":false}`, 30*time.Second)
	spec.ReadOnly = false
	check := func(_ context.Context, r agent.ToolRun, a fileWriteArgs) error { return inside(r, a.Path, true) }
	return checked(spec, check, func(ctx context.Context, r agent.ToolRun, a fileWriteArgs) agent.ToolResult {
		return inWorkspace(r, func(w *workspace) (string, error) { return w.fileWrite(ctx, r.CallID, a) })
	})
}

func (w *workspace) fileWrite(ctx context.Context, callID string, a fileWriteArgs) (string, error) {
	if len(a.Content) > maxFile {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("the content has %d bytes, at most %d can be written", len(a.Content), maxFile)}
	}
	p, err := w.find(a.Path, toWrite)
	if err != nil {
		return "", err
	}
	defer p.close()
	unlock, err := p.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := p.replace(callID, []byte(a.Content)); err != nil {
		return "", err
	}
	lines := strings.Count(a.Content, "\n")
	if a.Content != "" && !strings.HasSuffix(a.Content, "\n") {
		lines++
	}
	return fmt.Sprintf("Wrote %d bytes (%d lines) to %s.", len(a.Content), lines, p.shown), nil
}

// replace changes a file in one step, so that a killed worker leaves the old or
// the new content. The temporary file is named after the call, so that a second run
// of a call whose worker was killed leaves none behind. The folder must be locked.
func (p place) replace(callID string, data []byte) error {
	mode := fs.FileMode(0o644)
	info, err := p.folder.Lstat(p.name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return naming(p.shown, err)
	case err == nil && info.IsDir():
		return &toolError{agent.ErrInvalidInput, p.shown + " is a directory"}
	case err == nil && !info.Mode().IsRegular():
		return &toolError{agent.ErrInvalidInput, p.shown + " is not a regular file"}
	case err == nil:
		mode = info.Mode().Perm()
	}
	sum := sha256.Sum256([]byte(callID + "\x00" + p.path))
	tmp := ".spool-" + hex.EncodeToString(sum[:8]) + ".tmp"
	_ = p.folder.Remove(tmp)
	if err = p.writeNew(tmp, data, mode, info != nil); err == nil {
		err = p.folder.Rename(tmp, p.name)
	}
	if err != nil {
		_ = p.folder.Remove(tmp)
	}
	return naming(p.shown, err)
}

// writeNew makes a file and waits for the disk: the result is stored durably, so
// the file has to be too. An exact mode is not narrowed by the umask.
func (p place) writeNew(name string, data []byte, mode fs.FileMode, exact bool) error {
	f, err := p.folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && exact {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

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
	"path/filepath"
	"strings"
	"syscall"
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
	check := func(_ context.Context, r agent.ToolRun, a fileWriteArgs) error { return inside(r, a.Path) }
	return checked(spec, check, func(ctx context.Context, r agent.ToolRun, a fileWriteArgs) agent.ToolResult {
		return inWorkspace(r, func(w *workspace) (string, error) { return w.fileWrite(ctx, r.CallID, a) })
	})
}

func (w *workspace) fileWrite(ctx context.Context, callID string, a fileWriteArgs) (string, error) {
	path, err := w.rel(a.Path)
	if err != nil {
		return "", err
	}
	if len(a.Content) > maxFile {
		return "", &toolError{agent.ErrInvalidInput, fmt.Sprintf("the content has %d bytes, at most %d can be written", len(a.Content), maxFile)}
	}
	if err := w.MkdirAll(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	unlock, err := w.lockFolder(ctx, path)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := w.replace(path, callID, []byte(a.Content)); err != nil {
		return "", err
	}
	lines := strings.Count(a.Content, "\n")
	if a.Content != "" && !strings.HasSuffix(a.Content, "\n") {
		lines++
	}
	return fmt.Sprintf("Wrote %d bytes (%d lines) to %s.", len(a.Content), lines, path), nil
}

// replace changes a file in one step, so that a killed worker leaves the old or
// the new content. A symbolic link is written through: renaming would replace it.
// The temporary file is named after the call, so that a second run of a call
// whose worker was killed leaves none behind. The folder must be locked.
func (w *workspace) replace(path, callID string, data []byte) error {
	mode := fs.FileMode(0o644)
	info, err := w.Lstat(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && info.IsDir():
		return &toolError{agent.ErrInvalidInput, path + " is a directory"}
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return w.writeThrough(path, data, mode)
	case err == nil && !info.Mode().IsRegular():
		return &toolError{agent.ErrInvalidInput, path + " is not a regular file"}
	case err == nil:
		mode = info.Mode().Perm()
	}
	sum := sha256.Sum256([]byte(callID + "\x00" + path))
	tmp := filepath.Join(filepath.Dir(path), ".spool-"+hex.EncodeToString(sum[:8])+".tmp")
	_ = w.Remove(tmp)
	if err = w.writeNew(tmp, data, mode, info != nil); err == nil {
		err = w.Rename(tmp, path)
	}
	if err != nil {
		_ = w.Remove(tmp)
	}
	return naming(path, err)
}

// naming makes an error one of a path, in place of a name that nobody knows.
func naming(path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return &fs.PathError{Op: pe.Op, Path: path, Err: pe.Err}
	case errors.As(err, &le): // of the rename
		return &fs.PathError{Op: le.Op, Path: path, Err: le.Err}
	}
	return err
}

// writeNew makes a file and waits for the disk: the result is stored durably, so
// the file has to be too. An exact mode is not narrowed by the umask.
func (w *workspace) writeNew(path string, data []byte, mode fs.FileMode, exact bool) error {
	f, err := w.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
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

// writeThrough writes the file that a link leads to. Nothing is lost, and nobody
// waits, if that is no regular file, and nothing is lost for lack of room: what goes
// beyond the old end is written first.
func (w *workspace) writeThrough(path string, data []byte, mode fs.FileMode) error {
	f, err := w.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, mode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = &toolError{agent.ErrInvalidInput, path + " leads to what is not a regular file"}
	default:
		err = overwrite(f, info.Size(), data)
	}
	return naming(path, errors.Join(err, f.Close()))
}

// overwrite replaces the content of a file that has a size.
func overwrite(f *os.File, size int64, data []byte) error {
	if size < int64(len(data)) {
		if _, err := f.WriteAt(data[size:], size); err != nil {
			return errors.Join(err, f.Truncate(size))
		}
	}
	if _, err := f.WriteAt(data[:min(size, int64(len(data)))], 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	return f.Sync()
}

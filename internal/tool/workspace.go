package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
)

// maxFile bounds what a tool reads of or writes to one file.
const maxFile = 64 << 20

// workspace is a thread's root directory, opened. os.Root resolves each path
// inside it, so neither "..", a symbolic link nor an absolute path leads out.
type workspace struct {
	*os.Root
	dir string
}

func openWorkspace(dir string) (*workspace, error) {
	if dir == "" {
		return nil, errors.New("this thread has no workspace directory")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the workspace cannot be opened on this worker: %w", err)
	}
	return &workspace{root, dir}, nil
}

// inWorkspace opens the workspace for f and turns its error into a result.
func inWorkspace(r agent.ToolRun, f func(*workspace) (string, error)) agent.ToolResult {
	w, err := openWorkspace(r.Workdir)
	if err != nil {
		return failure(err)
	}
	defer func() { _ = w.Close() }()
	text, err := f(w)
	if err != nil {
		return failure(err)
	}
	return agent.ToolOK(text)
}

// inside is nil unless a path leads out of the workspace, by its text or by a link
// that is there now. A workspace that cannot be opened here says nothing: another
// worker may have it.
func inside(r agent.ToolRun, path string) error {
	w, err := openWorkspace(r.Workdir)
	if err != nil {
		return nil
	}
	defer func() { _ = w.Close() }()
	rel, err := w.rel(path)
	if err != nil {
		return err
	}
	if _, err = w.Stat(rel); leadsOut(err) {
		return err
	}
	return nil
}

// leadsOut recognises os.Root's refusal: os has no exported error for it.
func leadsOut(err error) bool {
	return err != nil && strings.Contains(err.Error(), "path escapes from parent")
}

// rel makes a model's path relative to the root. Models like absolute paths:
// those that lie in the workspace are accepted.
func (w *workspace) rel(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", &toolError{agent.ErrInvalidInput, "the path contains a NUL byte"}
	}
	if path == "" {
		path = "."
	}
	if !filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	roots := []string{w.dir}
	if real, err := filepath.EvalSymlinks(w.dir); err == nil {
		roots = append(roots, real)
	}
	for _, root := range roots {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	return "", outside(path)
}

// read returns a regular file. O_NONBLOCK keeps a named pipe from blocking.
func (w *workspace) read(path string) ([]byte, error) {
	f, err := w.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &toolError{agent.ErrInvalidInput, path + " is a directory; use ls to list it"}
	case !info.Mode().IsRegular():
		return nil, &toolError{agent.ErrInvalidInput, path + " is not a regular file"}
	case info.Size() > maxFile:
		return nil, &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s has %d bytes, at most %d can be read; use grep, or the shell to cut out a part", path, info.Size(), maxFile)}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile { // an edit must not write back a part
		err = &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s grew beyond %d bytes while it was read", path, maxFile)}
	}
	return data, err
}

// shown is a name as it is listed: one that holds line ends, other control
// characters or bad bytes must not look like several, or like another.
func shown(name string) string {
	if utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsControl) < 0 {
		return name
	}
	return strconv.Quote(name)
}

// toolError is an error of which the model learns the reason.
type toolError struct {
	reason agent.ErrorReason
	text   string
}

func (e *toolError) Error() string { return e.text }

func outside(path string) error {
	return &toolError{agent.ErrPermissionDenied, fmt.Sprintf("%s lies outside the workspace; use a path relative to the workspace root", path)}
}

// failure makes a result of an error.
func failure(err error) agent.ToolResult {
	var te *toolError
	reason, text := agent.ErrUnknown, err.Error()
	switch {
	case errors.As(err, &te):
		reason = te.reason
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ended(err, "", 0)
	case errors.Is(err, fs.ErrNotExist):
		reason, text = agent.ErrNotFound, pathText(err, "does not exist")
	case errors.Is(err, fs.ErrPermission):
		reason, text = agent.ErrPermissionDenied, pathText(err, "must not be accessed (permission denied)")
	case errors.Is(err, syscall.ENOTDIR):
		reason, text = agent.ErrInvalidInput, pathText(err, "leads through something that is not a directory")
	case errors.Is(err, syscall.ENXIO): // a socket, or a named pipe that nobody reads
		reason, text = agent.ErrInvalidInput, pathText(err, "is not a regular file")
	case errors.Is(err, syscall.EROFS):
		reason, text = agent.ErrPermissionDenied, pathText(err, "is on a read-only file system")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		text = pathText(err, "cannot be written: the disk is full; make room, or tell a person")
	case errors.Is(err, syscall.EFBIG):
		text = pathText(err, "cannot be written: files may not be that large here")
	case errors.Is(err, syscall.ENAMETOOLONG):
		reason, text = agent.ErrInvalidInput, pathText(err, "is too long for a path")
	case errors.Is(err, syscall.ELOOP):
		reason, text = agent.ErrInvalidInput, pathText(err, "leads through too many links")
	case leadsOut(err):
		reason, text = agent.ErrPermissionDenied, pathText(err, "lies outside the workspace; use a path relative to the workspace root")
	}
	return agent.ToolFailed(reason, "Error: %s.", text)
}

func pathText(err error, what string) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Path + " " + what
	}
	return err.Error()
}

package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spool-agents/spool/agent"
)

// maxFile bounds what a tool reads of or writes to one file.
const maxFile = 64 << 20

// workspace is a thread's root directory, opened. os.Root resolves each path
// inside it, so neither "..", a symbolic link nor an absolute path leads out.
type workspace struct {
	*os.Root
	dir      string
	above    string        // the path between the worker's workspace and dir
	own      []fs.FileInfo // Spool's own folder, and its files elsewhere
	private  []string      // the paths of these, which need not be there yet
	approved bool
	reads    func(path string) agent.Gate
	linked   func() []fs.FileInfo // files of home that have another name as well
}

func openWorkspace(r agent.ToolRun) (*workspace, error) {
	if r.Workdir == "" {
		return nil, errors.New("this thread has no workspace directory")
	}
	base := cmp.Or(r.Workspace, r.Workdir)
	rel, err := filepath.Rel(base, r.Workdir)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, &toolError{agent.ErrPermissionDenied, fmt.Sprintf("the folder %s of this thread lies outside this worker's workspace %s", r.Workdir, base)}
	}
	if within(r.Home, base) {
		return nil, &toolError{agent.ErrPermissionDenied, fmt.Sprintf("the workspace %s lies in Spool's own folder %s, where tools do not work: use another workspace", base, r.Home)}
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, fmt.Errorf("the workspace cannot be opened on this worker: %w", err)
	}
	w := &workspace{Root: root, dir: r.Workdir, approved: r.Approved, reads: r.Reads, private: r.Private, linked: sync.OnceValue(func() []fs.FileInfo { return linkedFiles(r.Home) })}
	for _, path := range append([]string{r.Home}, r.Private...) {
		if info, err := os.Stat(path); err == nil {
			w.own = append(w.own, info)
		}
	}
	if rel == "." {
		return w, nil
	}
	defer func() { _ = root.Close() }()
	p, err := w.find(rel, toRead)
	if err != nil {
		return nil, fmt.Errorf("the workspace cannot be opened on this worker: %w", err)
	}
	defer p.close()
	if w.Root, err = w.enter(p); err != nil {
		return nil, fmt.Errorf("the workspace cannot be opened on this worker: %w", err)
	}
	w.above = p.path
	return w, nil
}

// within reports whether a folder is another one, or lies in it, links followed.
func within(folder, path string) bool {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil || folder == "" {
		return false
	}
	rel, err := filepath.Rel(folder, realPath(path))
	return err == nil && filepath.IsLocal(rel)
}

// realPath follows the links of a path, those included that lead to what is not there.
func realPath(path string) string { return realFrom(path, mostLinks) }

func realFrom(path string, links int) string {
	real, err := filepath.EvalSymlinks(path)
	dir := filepath.Dir(path)
	if err == nil || dir == path {
		return cmp.Or(real, path)
	}
	target, err := os.Readlink(path)
	switch {
	case err != nil || links == 0:
		return filepath.Join(realFrom(dir, links), filepath.Base(path))
	case !filepath.IsAbs(target):
		target = filepath.Join(dir, target)
	}
	return realFrom(target, links-1)
}

// linkedFiles are the files in a folder that have more than one name, those near its top
// first.
func linkedFiles(folder string) (linked []fs.FileInfo) {
	const most = 20_000
	seen := 0
	for todo := []string{folder}; folder != "" && len(todo) > 0 && seen < most; todo = todo[1:] {
		entries, _ := os.ReadDir(todo[0]) // what cannot be read here a tool cannot read either
		for _, e := range entries {
			if seen++; e.IsDir() {
				todo = append(todo, filepath.Join(todo[0], e.Name()))
			} else if info, err := e.Info(); err == nil && linkCount(info) > 1 {
				linked = append(linked, info)
			}
		}
	}
	return linked
}

func linkCount(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert // not everywhere is it a uint64
	}
	return 1
}

// mayShow reports whether a tool may show what is in a file, by its path as it was given
// and as it is without links. What asks was settled with the call, if that named the file.
func (w *workspace) mayShow(p place, named bool) bool {
	if w.reads == nil {
		return true
	}
	gate := w.reads(p.shown).Stricter(w.reads(p.path))
	return gate == agent.GateAuto || gate != agent.GateDeny && (named || w.approved)
}

// fileTool is a tool that works in the thread's workspace. path, which may be nil, is that of a
// call: one that leads out is refused beforehand.
func fileTool[T any](spec agent.ToolSpec, path func(T) string, run func(w *workspace, ctx context.Context, callID string, args T) (string, error)) agent.Tool {
	check := func(_ context.Context, r agent.ToolRun, a T) error { return inside(r, path(a), !spec.ReadOnly) }
	if path == nil {
		check = nil
	}
	return checked(spec, check, func(ctx context.Context, r agent.ToolRun, a T) agent.ToolResult {
		w, err := openWorkspace(r)
		if err != nil {
			return failure(err)
		}
		defer func() { _ = w.Close() }()
		text, err := run(w, ctx, r.CallID, a)
		if err != nil {
			return failure(err)
		}
		return agent.ToolOK(text)
	})
}

// inside is nil unless a path leads out of the workspace, by its text or by a link
// that is there now, or into Spool's own folder, or, for what writes, by a link to a
// protected name. A workspace that cannot be opened here says nothing: another worker
// may have it.
func inside(r agent.ToolRun, path string, writes bool) error {
	w, err := openWorkspace(r)
	if err != nil {
		return refusal(err)
	}
	defer func() { _ = w.Close() }()
	p, err := w.find(path, toLook)
	defer p.close()
	if err == nil && writes && p.linked && protected(p.whole) {
		err = naming(p.shown, p.unapproved())
	}
	return refusal(err)
}

// refusal is an error that says that something must not be, whoever asks; else nil.
func refusal(err error) error {
	var te *toolError
	if errors.As(err, &te) {
		return te
	}
	return nil
}

// rel makes a model's path relative to the root. Models like absolute paths:
// those that lie in the workspace are accepted, and names as they are listed.
func (w *workspace) rel(path string) (string, error) {
	path = w.unquoted(path)
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
	return "", naming(path, errOutside)
}

// unquoted is a path that is written as shown lists it, unless that is a name itself.
func (w *workspace) unquoted(path string) string {
	if s, err := strconv.Unquote(path); err == nil && path[0] == '"' {
		if _, err = w.Lstat(path); err != nil {
			return s
		}
	}
	return path
}

// ReadFile reads a regular file of a run's workspace of at most so many bytes.
func ReadFile(r agent.ToolRun, path string, most int64) ([]byte, error) {
	w, err := openWorkspace(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	p, err := w.find(path, toRead)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if !w.mayShow(p, true) {
		return nil, naming(p.shown, errRule)
	}
	return p.read(most)
}

// leadsOut recognises os.Root's refusal: os has no exported error for it.
func leadsOut(err error) bool {
	return err != nil && strings.Contains(err.Error(), "path escapes from parent")
}

// toolError is an error of which the model learns the reason.
type toolError struct {
	reason agent.ErrorReason
	text   string
}

func (e *toolError) Error() string { return e.text }

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
		if m := (*missing)(nil); errors.As(err, &m) {
			text = pathText(err, m.Error())
		}
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

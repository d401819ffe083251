// Package atomicfile writes files that are the old or the new one, never
// something in between, whatever happens to the process or the machine; locks
// them between processes; and sets damaged ones aside.
package atomicfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/spool-agents/spool/agent"
)

// Hook is called at named moments of a write: "during" when half of the new
// content is in a temporary file, "before" when all of it is there and durable,
// "after" when it has replaced the old file. Tests of recovery die there.
type Hook func(moment string)

// StaleAfter is the age at which a temporary file has no writer any more.
const StaleAfter = 10 * time.Minute

// Write replaces the file at path with data, for its owner only. Content and
// name are on the disk when it returns. When it fails before the rename the old
// file is as it was. Writers of one path may run at once: one of them is last.
func Write(path string, data []byte, hook Hook) error {
	if hook == nil {
		hook = func(string) {}
	}
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	RemoveTemporary(dir, base, StaleAfter)
	f, err := os.CreateTemp(dir, "."+base+".tmp-*") // mode 0600
	if err != nil {
		return err
	}
	if err := fill(f, data, hook); err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	hook("before")
	if err := os.Rename(f.Name(), path); err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	if err := SyncDir(dir); err != nil {
		return err
	}
	hook("after")
	return nil
}

// JSON is what files have of a value, for people to read.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// fill writes, syncs and closes a temporary file.
func fill(f *os.File, data []byte, hook Hook) error {
	half := len(data) / 2
	_, err := f.Write(data[:half])
	if err == nil {
		hook("during")
		_, err = f.Write(data[half:])
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// RemoveTemporary removes what writers that were killed left behind of files whose
// names begin with a prefix, if it is older than age.
func RemoveTemporary(dir, prefix string, age time.Duration) {
	entries, _ := os.ReadDir(dir) // there need be none
	for _, e := range entries {
		base, suffix, found := strings.Cut(e.Name(), ".tmp-")
		if _, err := strconv.ParseUint(suffix, 10, 64); err != nil || !found || !strings.HasPrefix(base, "."+prefix) {
			continue // no writer's
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) >= age {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// SyncDir makes the names in a folder durable. Systems that cannot do that for
// folders do it by themselves.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MakeDir makes a folder, and those above it, for their owner only and durably.
func MakeDir(dir string) error {
	var parents []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || !errors.Is(err, os.ErrNotExist) {
			break
		}
		parents = append(parents, filepath.Dir(d))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range parents {
		if err := SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// SetAside renames a damaged file to NAME.damaged-TIME, so that nobody writes
// over it, and returns the new path.
func SetAside(path string, now time.Time) (string, error) {
	aside := path + ".damaged-" + now.UTC().Format("20060102T150405.000000000Z")
	for n := 0; ; n++ {
		name := aside
		if n > 0 {
			name += "-" + strconv.Itoa(n)
		}
		if _, err := os.Lstat(name); err == nil {
			continue // another one in the same moment
		}
		if err := os.Rename(path, name); err != nil {
			return "", err
		}
		return name, SyncDir(filepath.Dir(path))
	}
}

// errNotRegular is what reading a folder, pipe, device or link is refused with.
var errNotRegular = errors.New("not a regular file")

// ReadRegular reads a regular file; a link, pipe or device of that name, which
// could lead elsewhere or block for ever, is refused.
func ReadRegular(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: path, Err: errNotRegular}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Explain says what an error of a file means for a person and what to do. what
// names the file, as in "memory file /x/y.json". nil stays nil.
func Explain(err error, what string) error {
	var known *agent.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return agent.Wrap(err, agent.CodeUnavailable, "%s: the caller gave up waiting; nothing was changed", what)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return agent.Wrap(err, agent.CodeUnavailable, "%s cannot be written, the disk or a quota is full: free some space, then try again; nothing was changed", what)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return agent.Wrap(err, agent.CodeUnavailable, "%s may not be used like that by this user: make the file and its folder writable, then try again; nothing was changed", what)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, errNotRegular):
		return agent.Wrap(err, agent.CodeInvalid, "%s cannot be a file there: take what is in its place away, or choose another path", what)
	}
	return agent.Wrap(err, agent.CodeUnavailable, "%s cannot be read or written: check the disk, then try again", what)
}

// Lock takes the lock that the file at path stands for, against other processes
// and against other callers in this one. It waits for others up to wait, or
// until ctx ends. The file stays when the lock is released: removing it would
// let two holders in. The lock of a process that dies is free at once.
func Lock(ctx context.Context, path string, wait time.Duration) (release func(), err error) {
	file := flock.New(path, flock.SetPermissions(0o600))
	held, err := file.TryLock()
	if !held && err == nil {
		limited, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		_, err = file.TryLockContext(limited, 3*time.Millisecond)
	}
	if err != nil {
		_ = file.Close()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = agent.Errorf(agent.CodeUnavailable, "%s is held by another process for more than %s: end programs that keep it for long, then try again; nothing was changed", path, wait)
		}
		return nil, err
	}
	return sync.OnceFunc(func() { _ = file.Close() }), nil
}

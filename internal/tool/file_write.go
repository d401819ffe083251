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
	"syscall"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/textfile"
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
	return fileTool(spec, func(a fileWriteArgs) string { return a.Path }, (*workspace).fileWrite)
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
	data, note := p.asWritten(a.Content)
	kept, err := p.replace(callID, data)
	if err != nil {
		return "", err
	}
	lines := strings.Count(a.Content, "\n")
	if a.Content != "" && !strings.HasSuffix(a.Content, "\n") {
		lines++
	}
	return fmt.Sprintf("Wrote %d bytes (%d lines) to %s.%s%s", len(data), lines, p.shown, note, kept), nil
}

// asWritten are the bytes of a new content: with the line ends and in the encoding of the
// file that it replaces.
func (p place) asWritten(content string) (data []byte, note string) {
	t, old, err := p.readText()
	if err != nil || len(old) == 0 {
		return []byte(content), ""
	}
	text := strings.TrimPrefix(content, "\uFEFF")
	if end := textfile.LineEnd(t.Value); end != "\n" {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", end)
	}
	was := t.Encoding
	t = t.As(text)
	switch data, err = t.Encode(text); {
	case err != nil:
		return []byte(text), fmt.Sprintf(" The file is UTF-8 now: %v.", err)
	case t.Encoding != was:
		note = fmt.Sprintf(" The file is written in %s now, as it declares.", t.Encoding)
	case string(data) != content:
		note = fmt.Sprintf(" It keeps its line ends and its encoding, %s.", t.Encoding)
	}
	return data, note
}

// replace changes a file in one step, so that a killed worker leaves the old or
// the new content. The temporary file is named after the call, so that a second run
// of a call whose worker was killed leaves none behind. The folder must be locked.
// note says what of the old file was not kept.
func (p place) replace(callID string, data []byte) (note string, err error) {
	info, err := p.folder.Lstat(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		info = nil
	case err != nil:
		return "", naming(p.shown, err)
	case info.IsDir():
		return "", &toolError{agent.ErrInvalidInput, p.shown + " is a directory"}
	case !info.Mode().IsRegular():
		return "", &toolError{agent.ErrInvalidInput, p.shown + " is not a regular file"}
	}
	sum := sha256.Sum256([]byte(callID + "\x00" + p.path))
	tmp := ".spool-" + hex.EncodeToString(sum[:8]) + ".tmp"
	_ = p.folder.Remove(tmp)
	if note, err = p.writeNew(tmp, data, info); err == nil {
		err = p.folder.Rename(tmp, p.name)
	}
	if err != nil {
		_ = p.folder.Remove(tmp)
	}
	return note, naming(p.shown, err)
}

// writeNew makes a file and waits for the disk: the result is stored durably, so
// the file has to be too. What the old file has is kept, before a name shows the new one.
func (p place) writeNew(name string, data []byte, old fs.FileInfo) (note string, err error) {
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = 0o600 // until it has the owner and the mode of the old one
	}
	f, err := p.folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil && old != nil {
		note, err = p.keep(f, old)
	}
	if err == nil {
		err = f.Sync()
	}
	return note, errors.Join(err, f.Close())
}

// keep gives a new file the owner, attributes and mode of the one that it replaces. note
// says what could not be kept.
func (p place) keep(f *os.File, old fs.FileInfo) (note string, err error) {
	now, err := f.Stat()
	if err != nil {
		return "", err
	}
	was, ok := old.Sys().(*syscall.Stat_t)
	is, also := now.Sys().(*syscall.Stat_t)
	if ok && also && (was.Uid != is.Uid || was.Gid != is.Gid) && f.Chown(int(was.Uid), int(was.Gid)) != nil {
		note += fmt.Sprintf(" Its owner is %d:%d now: the worker may not give it to %d:%d, whose it was.", is.Uid, is.Gid, was.Uid, was.Gid)
	}
	if lost := p.keepAttributes(f); lost != "" {
		note += " Not kept were its attributes" + lost + "."
	}
	if ok && was.Nlink > 1 {
		note += fmt.Sprintf(" The file had %d names (hard links); the others keep the old content.", was.Nlink)
	}
	return note, f.Chmod(old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky))
}

// lock keeps two writers of files in one folder apart until the returned
// function is called: calls of one reply run in parallel, perhaps on different
// workers, and an edit that reads while another writes would be lost. The lock
// is the kernel's, so it ends with its process.
func (p place) lock(ctx context.Context) (func(), error) {
	dir, err := p.folder.Open(".")
	if err != nil {
		return nil, naming(p.shown, err)
	}
	for {
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || noLocks(err) {
			return func() { _ = dir.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = dir.Close()
			return nil, &os.PathError{Op: "lock", Path: p.shown, Err: err}
		}
		select {
		case <-ctx.Done():
			_ = dir.Close()
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// noLocks reports that the file system has no such locks (some network ones);
// writing without is better than not writing.
func noLocks(err error) bool {
	return errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EINVAL)
}

package tool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/textfile"
)

// place is where a path of the workspace leads: a name in a folder that is open.
// find has followed the links, so what is done with a place is done where it was
// looked at, whatever becomes of the names that led there.
type place struct {
	folder *os.Root
	name   string                 // "." = the folder itself
	path   string                 // from the thread's folder, without links
	whole  string                 // the same from the worker's workspace
	shown  string                 // the path as it was given
	linked bool                   // a link was followed
	owned  bool                   // the folder is to be closed
	keys   func(fs.FileInfo) bool // see workspace.isKey
}

func (p place) close() {
	if p.owned {
		_ = p.folder.Close()
	}
}

// purpose is what a place is looked for.
type purpose int

const (
	toLook   purpose = iota // what is not there yet is no error
	toRead                  // it has to be there
	toChange                // the same; protected names are refused
	toWrite                 // folders are made on the way, too
)

// mostLinks bounds the links of a path, as the kernel does.
const mostLinks = 40

// trail is the way to a place: the folders that are open and their names.
type trail struct {
	folders []*os.Root
	above   string
	names   []string
	todo    []string
	links   int
}

// find opens the folders that lead to a path, one by one, links included. Each has
// to be the very folder that was looked at, so a name that is exchanged for a link in
// between leads nowhere.
func (w *workspace) find(path string, why purpose) (place, error) {
	given, err := w.rel(path)
	if err != nil {
		return place{}, err
	}
	t := &trail{folders: []*os.Root{w.Root}, above: w.above, todo: strings.Split(given, "/")}
	p, err := w.follow(t, why)
	keep := 1 // the workspace's own stays open
	if err == nil && len(t.folders) > 1 {
		keep, p.owned = len(t.folders)-1, true
	}
	for i, f := range t.folders[1:] {
		if i+1 != keep || !p.owned {
			_ = f.Close()
		}
	}
	p.shown, p.keys = given, w.isKey
	return p, naming(given, err)
}

// follow walks a trail to its last name.
func (w *workspace) follow(t *trail, why purpose) (place, error) {
	for len(t.todo) > 0 {
		name := t.todo[0]
		t.todo = t.todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(t.folders) == 1 {
				return place{}, errOutside
			}
			_ = t.folders[len(t.folders)-1].Close()
			t.folders, t.names = t.folders[:len(t.folders)-1], t.names[:len(t.names)-1]
			continue
		}
		p, arrived, err := w.step(t, name, why)
		if err != nil || arrived {
			return p, err
		}
	}
	return t.at("."), nil
}

// step takes the next name of a trail. arrived means that it was the last.
func (w *workspace) step(t *trail, name string, why purpose) (p place, arrived bool, err error) {
	here, last := t.folders[len(t.folders)-1], len(t.todo) == 0
	info, err := here.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if same := sameName(here, name); same != "" {
			name = same
			info, err = here.Lstat(name)
		}
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return place{}, false, t.link(here, name)
	}
	if w.isPrivate(here, name) || err == nil && w.isHome(info) {
		return place{}, false, errHome
	}
	if why >= toChange && protected(t.at(name).whole) && (!w.approved || t.links > 0) {
		return place{}, false, t.at(filepath.Join(append([]string{name}, t.todo...)...)).unapproved()
	}
	if errors.Is(err, fs.ErrNotExist) && !last && why == toWrite {
		if err = here.Mkdir(name, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
			info, err = here.Lstat(name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && why == toLook:
		return t.at(filepath.Join(append([]string{name}, t.todo...)...)), true, nil
	case errors.Is(err, fs.ErrNotExist) && last && why == toWrite:
		return t.at(name), true, nil
	case errors.Is(err, fs.ErrNotExist):
		return place{}, false, notThere(here, name)
	case err != nil:
		return place{}, false, err
	case last:
		return t.at(name), true, nil
	}
	next, err := enter(here, name, info)
	if err == nil {
		t.folders, t.names = append(t.folders, next), append(t.names, name)
	}
	return place{}, false, err
}

// link puts what a link leads to in front of what is left of a trail.
func (t *trail) link(here *os.Root, name string) error {
	target, err := here.Readlink(name)
	switch t.links++; {
	case err != nil:
		return err
	case t.links > mostLinks:
		return &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	case filepath.IsAbs(target):
		return errOutside
	}
	t.todo = append(strings.Split(target, "/"), t.todo...)
	return nil
}

func (t *trail) at(name string) place {
	path := filepath.Join(append(slices.Clone(t.names), name)...)
	return place{folder: t.folders[len(t.folders)-1], name: name, path: path, whole: filepath.Join(t.above, path), linked: t.links > 0}
}

// unapproved refuses to write to a protected name. Behind a link that holds whatever a
// person said, who saw another path.
func (p place) unapproved() error {
	return &wayError{agent.ErrPermissionDenied, fmt.Sprintf("leads to %s, where nothing is written without a person's approval; make the call again with that path", p.path)}
}

// enter opens a folder that was looked at.
func enter(in *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	folder, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := folder.Stat("."); err != nil || !os.SameFile(now, info) {
		return nil, errors.Join(errMoved, folder.Close())
	}
	return folder, nil
}

// enter opens a place that is a folder, as a root of its own.
func (w *workspace) enter(p place) (*os.Root, error) {
	info, err := p.folder.Lstat(p.name)
	if err == nil && w.isHome(info) {
		err = errHome
	}
	if err != nil {
		return nil, err
	}
	return enter(p.folder, p.name, info)
}

// isHome reports whether a file or folder is Spool's own.
func (w *workspace) isHome(info fs.FileInfo) bool {
	return slices.ContainsFunc(w.own, func(own fs.FileInfo) bool { return os.SameFile(own, info) })
}

// isPrivate reports whether a name is one that Spool may give to a file of its own.
func (w *workspace) isPrivate(in *os.Root, name string) bool {
	here, err := in.Stat(".")
	return err == nil && slices.ContainsFunc(w.private, func(path string) bool {
		folder, err := os.Stat(filepath.Dir(path))
		return err == nil && filepath.Base(path) == name && os.SameFile(folder, here)
	})
}

// isKey is isHome for a file, also by another name of one in Spool's folder.
func (w *workspace) isKey(info fs.FileInfo) bool {
	return w.isHome(info) || linkCount(info) > 1 && slices.ContainsFunc(w.linked(), func(own fs.FileInfo) bool { return os.SameFile(own, info) })
}

func (p place) open(flags int) (*os.File, fs.FileInfo, error) {
	// O_NONBLOCK keeps a named pipe from blocking.
	f, err := p.folder.OpenFile(p.name, flags|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, naming(p.shown, err)
	}
	info, err := f.Stat()
	if err == nil {
		var entry fs.FileInfo
		if entry, err = p.folder.Lstat(p.name); err == nil && !os.SameFile(info, entry) {
			err = errMoved
		}
	}
	if err == nil && !info.IsDir() && p.keys(info) {
		err = errHome
	}
	if err != nil {
		return nil, nil, naming(p.shown, errors.Join(err, f.Close()))
	}
	return f, info, nil
}

func (p place) read(most int64) ([]byte, error) {
	f, info, err := p.open(os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	switch {
	case info.IsDir():
		return nil, &toolError{agent.ErrInvalidInput, p.shown + " is a directory; use ls to list it"}
	case !info.Mode().IsRegular():
		return nil, &toolError{agent.ErrInvalidInput, p.shown + " is not a regular file"}
	case info.Size() > most:
		return nil, &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s has %d bytes, at most %d can be read; use the shell to search it or to cut out a part", p.shown, info.Size(), most)}
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most { // an edit must not write back a part
		err = &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s grew beyond %d bytes while it was read", p.shown, most)}
	}
	return data, err
}

func (p place) readText() (textfile.Text, []byte, error) {
	data, err := p.read(maxFile)
	if err != nil {
		return textfile.Text{}, nil, err
	}
	t := textfile.Decode(data, "")
	if t.Binary() {
		err = &toolError{agent.ErrInvalidInput, fmt.Sprintf("%s is a binary file of %d bytes", p.shown, len(data))}
	}
	return t, data, err
}

// wayError is what is wrong with a path; naming puts the path in front.
type wayError struct {
	reason agent.ErrorReason
	text   string
}

func (e *wayError) Error() string { return e.text }

var (
	errOutside = &wayError{agent.ErrPermissionDenied, "lies outside the workspace; use a path relative to the workspace root"}
	errHome    = &wayError{agent.ErrPermissionDenied, "belongs to Spool itself, which tools do not reach"}
	errRule    = &wayError{agent.ErrPermissionDenied, "must not be shown, by a rule of this agent"}
	errMoved   = &wayError{agent.ErrUnknown, "was exchanged while it was opened; try again"}
)

// naming makes an error one of a path, in place of a name that nobody knows.
func naming(path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	var we *wayError
	switch {
	case errors.As(err, &we):
		return &toolError{we.reason, path + " " + we.text}
	case errors.As(err, &pe):
		return &fs.PathError{Op: pe.Op, Path: path, Err: pe.Err}
	case errors.As(err, &le): // of the rename
		return &fs.PathError{Op: le.Op, Path: path, Err: le.Err}
	}
	return err
}

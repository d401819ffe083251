package port

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/atomicfile"
)

// JSONFileOptions of a JSON file; the zero value is what programs use.
type JSONFileOptions struct {
	// Wait is how long to wait for other writers; 0 = 30 s.
	Wait time.Duration
	// OnDamage is told of a damaged file that was set aside, once; the access
	// that found it then goes on with an empty file. Without it that access
	// fails with the *DamagedError.
	OnDamage func(*DamagedError)
	// Now is the clock, for tests; nil = the system's.
	Now func() time.Time
}

// DamagedError tells that a file could not be understood. It was renamed, so
// that nothing is written over it, unless SetAside is empty.
type DamagedError struct {
	Path     string
	SetAside string
	// Stuck is why it could not be set aside; nil if nobody tried, as whoever only
	// reads does not.
	Stuck error
	Cause error
}

// Error says what is damaged, where it is and what to do.
func (e *DamagedError) Error() string {
	what := "is damaged"
	if agent.CodeOf(e.Cause) == agent.CodeInvalid { // it can be read, and is not what it should be
		what = "cannot be used"
	}
	switch {
	case e.SetAside == "" && e.Stuck == nil:
		return fmt.Sprintf("file %s %s (%v): it was left as it is; repair it, or move it away", e.Path, what, e.Cause)
	case e.SetAside == "":
		return fmt.Sprintf("file %s %s (%v) and could not be set aside (%v): make its folder writable, or move the file away; it was left as it is", e.Path, what, e.Cause, e.Stuck)
	}
	return fmt.Sprintf("file %s %s (%v): it was set aside as %s; repair it there and put it back, or go on without what it held", e.Path, what, e.Cause, e.SetAside)
}

// Unwrap returns what is wrong with the file.
func (e *DamagedError) Unwrap() error { return e.Cause }

// JSONFile is a MemoryPersistence in one JSON file, {key: [item, …]}, that people can
// read with their own tools.
//
// What it costs: all items are held in memory, and every write, an append too,
// writes and syncs the whole file: the time of a write grows with the file. On a
// busy machine of two processors an append took 1.4 ms behind 100 items of 200
// bytes, 7.6 ms behind 1,000 and 12 ms behind 10,000 (docs/figures.md). It is meant
// for some thousand messages; take SQLite for more.
//
// Writers of several processes take turns by a lock on PATH.lock. A file is
// replaced as a whole, so that it is the old or the new one after any crash. A
// file that cannot be understood is renamed to PATH.damaged-TIME and reported.
// Not for network file systems, whose locks do not hold.
type JSONFile struct {
	path string
	o    JSONFileOptions
	busy chan struct{} // held by whoever uses what follows

	t      table
	loaded *os.File // open, so that its identity is not given to another file
	info   os.FileInfo
	closed bool
}

// NewJSONFile makes a MemoryPersistence in the file at path. The file, and folders
// above it, are made by the first write, for their owner only.
func NewJSONFile(path string, o JSONFileOptions) *JSONFile {
	if o.Wait <= 0 {
		o.Wait = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &JSONFile{path: path, o: o, busy: make(chan struct{}, 1)}
}

// what names the file in errors.
func (j *JSONFile) what() string { return "memory file " + j.path }

// use waits for the right to use j's fields.
func (j *JSONFile) use(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case j.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if j.closed {
		<-j.busy
		return nil, agent.Errorf(agent.CodeUnavailable, "%s: it was closed; open it again", j.what())
	}
	return func() { <-j.busy }, nil
}

// View runs f on the file as it is now.
func (j *JSONFile) View(ctx context.Context, f func(Records) error) error {
	t, err := j.current(ctx)
	if err != nil {
		return atomicfile.Explain(err, j.what())
	}
	return f(&unit{base: t, readOnly: true})
}

func (j *JSONFile) current(ctx context.Context) (table, error) {
	done, err := j.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	err = j.refresh()
	var damaged *DamagedError
	if !errors.As(err, &damaged) {
		return j.t, err
	}
	release, err := atomicfile.Lock(ctx, j.lockPath(), j.o.Wait)
	if err != nil {
		damaged.Cause = errors.Join(damaged.Cause, err)
		return nil, damaged
	}
	defer release()
	return j.t, j.refreshLocked()
}

// Update runs f on the file, alone, and writes the file if f changed anything.
func (j *JSONFile) Update(ctx context.Context, f func(Records) error) error {
	done, err := j.use(ctx)
	if err != nil {
		return atomicfile.Explain(err, j.what())
	}
	defer done()
	if _, err := os.Stat(filepath.Dir(j.path)); errors.Is(err, fs.ErrNotExist) {
		// A unit that changes nothing makes no folder.
		try := &unit{base: table{}}
		if err := f(try); err != nil || !try.changed() {
			return err
		}
		if err := atomicfile.MakeDir(filepath.Dir(j.path)); err != nil {
			return atomicfile.Explain(err, j.what())
		}
	}
	release, err := atomicfile.Lock(ctx, j.lockPath(), j.o.Wait)
	if err != nil {
		return atomicfile.Explain(err, j.what())
	}
	defer release()
	if err := j.refreshLocked(); err != nil {
		return atomicfile.Explain(err, j.what())
	}
	u := &unit{base: j.t}
	if err := f(u); err != nil || !u.changed() {
		return err
	}
	if err := ctx.Err(); err != nil {
		return atomicfile.Explain(err, j.what())
	}
	return atomicfile.Explain(j.save(j.t.with(u)), j.what())
}

// save replaces the file and, if that went well, what is held of it.
func (j *JSONFile) save(t table) error {
	data, err := encodeTable(t)
	if err != nil {
		return err
	}
	err = atomicfile.Write(j.path, data, func(moment string) { memory.CrashPoint(moment + "-items-save") })
	if err != nil {
		return err
	}
	if f, info, err := openRegular(j.path); err == nil {
		j.keep(t, f, info)
	} else {
		j.forget() // it is written; the next access reads it
	}
	return nil
}

func (j *JSONFile) lockPath() string { return j.path + ".lock" }

// refreshLocked is refresh under the lock: a damaged file is set aside.
func (j *JSONFile) refreshLocked() error {
	err := j.refresh()
	var damaged *DamagedError
	if !errors.As(err, &damaged) {
		return err
	}
	damaged.SetAside, err = atomicfile.SetAside(j.path, j.o.Now())
	if err != nil && damaged.SetAside == "" {
		damaged.Stuck = err
		return damaged
	}
	j.forget()
	if j.o.OnDamage == nil {
		return damaged
	}
	j.o.OnDamage(damaged)
	return nil
}

// refresh reads the file unless it is the one that was read last.
func (j *JSONFile) refresh() error {
	info, err := os.Stat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.forget()
		return nil
	case err != nil:
		return err
	case j.loaded != nil && os.SameFile(info, j.info) && info.ModTime().Equal(j.info.ModTime()) && info.Size() == j.info.Size():
		return nil
	}
	f, info, err := openRegular(j.path)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		_ = f.Close()
		return err
	}
	t, err := decodeTable(data)
	if err != nil {
		_ = f.Close()
		return &DamagedError{Path: j.path, Cause: err}
	}
	j.keep(t, f, info)
	return nil
}

// openRegular opens a file; a pipe or a folder of that name is refused.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, agent.Errorf(agent.CodeInvalid, "memory file %s is not a regular file: choose another path; it was left as it is", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func (j *JSONFile) keep(t table, f *os.File, info os.FileInfo) {
	j.forget()
	j.t, j.loaded, j.info = t, f, info
}

func (j *JSONFile) forget() {
	if j.loaded != nil {
		_ = j.loaded.Close()
	}
	j.t, j.loaded, j.info = nil, nil, nil
}

// Close waits for the unit that runs and releases the file. A second Close does
// nothing.
func (j *JSONFile) Close() error {
	j.busy <- struct{}{}
	defer func() { <-j.busy }()
	j.forget()
	j.closed = true
	return nil
}

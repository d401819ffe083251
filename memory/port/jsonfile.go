package port

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unicode/utf8"

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
		return fmt.Sprintf("file %s %s (%v): it was left as it is; repair it, or move it away", e.Path, what, agent.PlainProblem(e.Cause.Error()))
	case e.SetAside == "":
		return fmt.Sprintf("file %s %s (%v) and could not be set aside (%v): make its folder writable, or move the file away; it was left as it is", e.Path, what, agent.PlainProblem(e.Cause.Error()), e.Stuck)
	}
	return fmt.Sprintf("file %s %s (%v): it was set aside as %s; repair it there and put it back, or go on without what it held", e.Path, what, agent.PlainProblem(e.Cause.Error()), e.SetAside)
}

// Unwrap returns what is wrong with the file.
func (e *DamagedError) Unwrap() error { return e.Cause }

// MoveAway sets the file aside, says where to, and tells: then it returns nil. It
// returns itself if nobody is to be told, or the file could not be moved.
func (e *DamagedError) MoveAway(now time.Time, tell func(*DamagedError)) error {
	e.SetAside, e.Stuck = atomicfile.SetAside(e.Path, now)
	if e.SetAside == "" || tell == nil {
		return e
	}
	tell(e)
	return nil
}

// JSONFile is a MemoryPersistence in one JSON file, {key: [item, …]}, that people
// can read and edit with their own tools.
//
// Each access reads the whole file, and each write, an append too, writes and
// syncs it: it is meant for some thousand messages.
//
// Writers of several processes take turns by a lock on PATH.lock. A file is
// replaced as a whole, so that it is the old or the new one after any crash. A
// file that cannot be understood is renamed to PATH.damaged-TIME and reported.
// Not for network file systems, whose locks do not hold.
type JSONFile struct {
	path   string
	o      JSONFileOptions
	closed atomic.Bool
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
	return &JSONFile{path: path, o: o}
}

// View runs f on the file as it is now.
func (j *JSONFile) View(ctx context.Context, f func(Records) error) error {
	if err := j.usable(ctx); err != nil {
		return err
	}
	t, err := j.read()
	if damaged := new(DamagedError); errors.As(err, &damaged) {
		err = j.locked(ctx, func() error {
			t, err = j.readWhole()
			return err
		})
	}
	if err != nil {
		return j.explain(err)
	}
	return f(&unit{base: t, readOnly: true})
}

// Update runs f on the file, alone, and writes the file if f changed anything.
func (j *JSONFile) Update(ctx context.Context, f func(Records) error) error {
	if err := j.usable(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Dir(j.path)); errors.Is(err, fs.ErrNotExist) {
		// A unit that changes nothing makes no folder.
		try := &unit{base: table{}}
		if err := f(try); err != nil || !try.changed() {
			return err
		}
		if err := atomicfile.MakeDir(filepath.Dir(j.path)); err != nil {
			return j.explain(err)
		}
	}
	var failed error // f's, which is not about the file
	err := j.locked(ctx, func() error {
		t, err := j.readWhole()
		if err != nil {
			return err
		}
		u := &unit{base: t}
		if failed = f(u); failed != nil || !u.changed() {
			return nil //nolint:nilerr // f's error is returned as it is
		}
		if err := j.usable(ctx); err != nil {
			return err
		}
		data, err := encodeTable(t.with(u))
		if err != nil {
			return err
		}
		return atomicfile.Write(j.path, data, func(moment string) { memory.CrashPoint(moment + "-items-save") })
	})
	if failed != nil {
		return failed
	}
	return j.explain(err)
}

// Close ends the use of the file. A second Close does nothing.
func (j *JSONFile) Close() error {
	j.closed.Store(true)
	return nil
}

func (j *JSONFile) explain(err error) error { return atomicfile.Explain(err, "memory file "+j.path) }

func (j *JSONFile) usable(ctx context.Context) error {
	if j.closed.Load() {
		return agent.Errorf(agent.CodeUnavailable, "memory file %s: it was closed; open it again", j.path)
	}
	return j.explain(ctx.Err())
}

func (j *JSONFile) locked(ctx context.Context, f func() error) error {
	release, err := atomicfile.Lock(ctx, j.path+".lock", j.o.Wait)
	if err != nil {
		return err
	}
	defer release()
	return f()
}

// read reads the file; one that is not there is empty.
func (j *JSONFile) read() (table, error) {
	data, err := atomicfile.ReadRegular(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return table{}, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := decodeTable(data)
	if err != nil {
		return nil, &DamagedError{Path: j.path, Cause: err}
	}
	return t, nil
}

// readWhole is read under the lock: a damaged file is set aside.
func (j *JSONFile) readWhole() (table, error) {
	t, err := j.read()
	var damaged *DamagedError
	if !errors.As(err, &damaged) {
		return t, err
	}
	return table{}, damaged.MoveAway(j.o.Now(), j.o.OnDamage)
}

// encodeTable writes {key: [item, …]}, sorted, for people to read.
func encodeTable(t table) ([]byte, error) {
	out := MemorySnapshot[json.RawMessage]{}
	for key, records := range t {
		for _, r := range records {
			out[key] = append(out[key], r.Body)
		}
	}
	return atomicfile.JSON(out)
}

// decodeTable reads what encodeTable writes, however it is spaced, and nothing
// that it would have to guess about, such as a key that is there twice.
func decodeTable(data []byte) (table, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not valid UTF-8")
	}
	var whole MemorySnapshot[json.RawMessage]
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	if whole == nil {
		return nil, errors.New("it is not an object of lists")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	_, _ = dec.Token() // its "{"
	var keys int
	for ; dec.More(); keys++ {
		_, _ = dec.Token()
		_ = dec.Decode(new(json.RawMessage))
	}
	if keys != len(whole) {
		return nil, errors.New("it holds a key twice")
	}
	t := table{}
	for key, items := range whole {
		records, err := encode(key, items)
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			t[key] = records
		}
	}
	return t, nil
}

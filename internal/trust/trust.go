// Package trust decides what a folder may do. What stands in a folder that was cloned,
// downloaded or written by an agent gives no orders: it may make things stricter, and all
// else counts only after a person has agreed to the bytes of the file. Settings, agent
// files and MCP servers ask here; see docs/security.md.
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spool-agents/spool/agent"
)

// most bounds the files that are read from folders.
const most = 1 << 20

// CheckYAML refuses YAML of such files that would take long to read: its parser takes a
// time that grows with the square of what is nested.
func CheckYAML(text string) error {
	const most, brackets = 16 << 10, 500
	switch {
	case len(text) > most:
		return fmt.Errorf("has more than %d bytes of YAML", most)
	case strings.Count(text, "[")+strings.Count(text, "{") > brackets:
		return fmt.Errorf("has more than %d brackets in its YAML", brackets)
	}
	return nil
}

// File is a file of a folder as it was read. What a person agrees to are these bytes, as
// the file of this name in this folder. Raw is their text, see agent.WrittenText.
type File struct {
	Folder, Name string
	Raw          []byte
	saved        []byte // the bytes, where Raw is not
}

// Path is where the file is.
func (f File) Path() string { return filepath.Join(f.Folder, f.Name) }

// Hash names the content.
func (f File) Hash() string {
	sum := sha256.Sum256(f.Raw)
	if f.saved != nil {
		sum = sha256.Sum256(f.saved)
	}
	return hex.EncodeToString(sum[:])
}

// Read reads a file that may be anybody's work: a regular one of at most a megabyte.
func Read(folder, name string) (f File, err error) {
	f = File{Folder: folder, Name: name}
	err = f.read(func(flag int) (*os.File, error) { return os.OpenFile(f.Path(), flag, 0) })
	return f, err
}

// ReadWithin is Read for a file whose text goes to a model: no link leads out of the folder.
func ReadWithin(folder, name string) (f File, err error) {
	f = File{Folder: folder, Name: name}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return f, err
	}
	defer root.Close()
	err = f.read(func(flag int) (*os.File, error) { return root.OpenFile(name, flag, 0) })
	return f, err
}

func (f *File) read(open func(flag int) (*os.File, error)) error {
	info, err := os.Stat(f.Path())
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", f.Path())
	}
	file, err := open(os.O_RDONLY | syscall.O_NONBLOCK) // a pipe that has taken its place must not block
	if err != nil {
		return err
	}
	defer file.Close()
	f.Raw, err = io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err == nil && len(f.Raw) > most:
		err = fmt.Errorf("%s has more than %d bytes", f.Path(), most)
	case err == nil:
		f.saved = f.Raw
		f.Raw, err = agent.WrittenText(f.Raw)
	}
	return err
}

// Offer is a file, and what it may do once a person agrees to it.
type Offer struct {
	File
	Agreed bool
	// Allows has a line for each thing, made by Line.
	Allows []string
	// Plain means that nothing gets laxer by it, but that an agent is called by its name.
	Plain bool
	// Problem says why the file cannot be used.
	Problem string
}

// MarshalJSON writes what a person has to know, all of it in ASCII.
func (o Offer) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"file": strconv.QuoteToASCII(o.Path()), "sha256": o.Hash(), "agreed": o.Agreed,
		"allows": append([]string{}, o.Allows...), "problem": o.Problem})
}

// Line says what is allowed, with the values of the file quoted: whole, and so that
// newlines, control characters, bidi and invisible ones show.
func Line(what string, values ...string) string {
	for _, v := range values {
		what += " " + strconv.QuoteToASCII(v)
	}
	return what
}

// Text has a Line for each line of a text.
func Text(raw []byte) (out []string) {
	for line := range strings.Lines(string(raw)) {
		out = append(out, Line(" ", strings.TrimRight(line, "\r\n")))
	}
	return out
}

var plain = regexp.MustCompile(`^[A-Za-z0-9/._+-]+$`)

// Command is what agrees to the files of a folder, for people.
func Command(folder string) string {
	if plain.MatchString(folder) {
		return "starter trust " + folder
	}
	return "starter trust" // called in the folder: its name is not safe to paste
}

type agreement struct {
	Hash string    `json:"sha256"`
	At   time.Time `json:"at"`
}

// Book holds the agreements that are kept in a home: by the real path of the folder,
// then by the name of the file.
type Book struct {
	path   string
	agreed map[string]map[string]agreement
	err    error
}

// Path is where the agreements of a home are kept.
func Path(home string) string { return filepath.Join(home, "trust.json") }

// Open reads the agreements. In a file that cannot be read there are none.
func Open(home string) Book {
	b := Book{path: Path(home), agreed: map[string]map[string]agreement{}}
	if home == "" {
		return b
	}
	f, err := Read(home, "trust.json")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		b.err = err
	default:
		b.err = json.Unmarshal(f.Raw, &b.agreed)
	}
	return b
}

// Agreed reports whether a person agreed to the content of a file.
func (b Book) Agreed(f File) bool {
	return b.err == nil && f.Raw != nil && b.agreed[real(f.Folder)][f.Name].Hash == f.Hash()
}

// Agree records that a person agreed to files as they were read.
func Agree(home string, now time.Time, files ...File) error {
	return change(home, func(b Book) {
		for _, f := range files {
			folder := real(f.Folder)
			if b.agreed[folder] == nil {
				b.agreed[folder] = map[string]agreement{}
			}
			b.agreed[folder][f.Name] = agreement{f.Hash(), now.UTC().Truncate(time.Second)}
		}
	})
}

// Forget takes back the agreements to the files of a folder, and says how many there were.
func Forget(home, folder string) (n int, err error) {
	err = change(home, func(b Book) {
		n = len(b.agreed[real(folder)])
		delete(b.agreed, real(folder))
	})
	return n, err
}

// change writes the book anew, one caller at a time: the home is locked. It is replaced
// by rename, as a worker may read it at any moment.
func change(home string, edit func(Book)) error {
	if home == "" {
		return agent.Errorf(agent.CodeInvalid, "there is no home folder to keep the agreement in: set SPOOL_HOME")
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return agent.Wrap(err, agent.CodeInternal, "cannot write %s", Path(home))
	}
	lock, err := os.Open(home)
	if err == nil {
		defer func() { _ = lock.Close() }()
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return agent.Wrap(err, agent.CodeInternal, "cannot lock %s", home)
	}
	b := Open(home)
	if b.err != nil {
		return agent.Wrap(b.err, agent.CodeInvalid, "%s cannot be read: mend it, or remove it and agree again", b.path)
	}
	edit(b)
	raw, err := json.MarshalIndent(b.agreed, "", "  ")
	if err == nil {
		next := b.path + ".new" // one name: what a killed program left is written over
		_ = os.Remove(next)
		var f *os.File
		if f, err = os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_, err = f.Write(append(raw, '\n'))
			if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
				err = os.Rename(next, b.path)
			}
		}
	}
	return agent.Wrap(err, agent.CodeInternal, "cannot write %s", b.path)
}

// real names a folder in one way, whatever links lead to it. Links within a folder do
// not count: an agreement is for one folder, as relative paths and rules mean its files.
func real(folder string) string {
	if abs, err := filepath.Abs(folder); err == nil {
		folder = abs
	}
	if path, err := filepath.EvalSymlinks(folder); err == nil {
		return path
	}
	return folder
}

// Same reports whether two paths lead to one folder.
func Same(a, b string) bool { return real(a) == real(b) }

// Lines joins what waits for an agreement, for a warning: short, and safe to print.
func Lines(lines []string) string {
	const shown = 4
	if more := len(lines) - shown; more > 0 {
		lines = append(append([]string{}, lines[:shown]...), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}

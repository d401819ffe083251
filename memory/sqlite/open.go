// Package sqlite is the embedded store: one file, several processes on one
// machine, no server. A commit is on disk before a method returns (write-ahead
// log, synchronous FULL), so the store is never behind Temporal.
//
// Each process has one connection for writing and a few for reading. Writers of
// all processes take turns; one that has to wait does so for up to 30 seconds
// and then says which file is locked. The file must not lie on a network file
// system: SQLite's locks do not work there.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// DefaultBusyTimeout is how long a statement waits for a lock.
const DefaultBusyTimeout = 30 * time.Second

// Options of a store; the zero value is what programs use.
type Options struct {
	// Clock is the store's clock, for tests; nil = the system's.
	Clock func() time.Time
	// BusyTimeout is how long to wait for other writers; 0 = DefaultBusyTimeout.
	BusyTimeout time.Duration
	// ReadConnections is the size of the pool for reading; 0 = 4.
	ReadConnections int
	// Relaxed does not let each commit wait for the disk (synchronous NORMAL): after
	// a loss of power the last ones may be gone, and Temporal ahead of the store.
	// For measurements and for data that can be made again.
	Relaxed bool
	// Removing and Committed tell a store of files what to do; see there.
	Removing  func(threadIDs []string) (over func())
	Committed func(threadIDs []string)

	schema fs.FS // tests of migrations
}

// Store is the SQLite implementation of memory.ConversationMemoryStore.
type Store struct {
	*sqlstore.Store
	path string
	file os.FileInfo // which file was opened; nil for a store in memory
	// readOnly says why it can only be read; nil = it can be written.
	readOnly error
}

// Writable says why the store can only be read; nil = it can be written.
func (s *Store) Writable() error { return s.readOnly }

// Path is the store's file; empty for a store in memory.
func (s *Store) Path() string { return s.path }

// Open opens the store in a file, making file (mode 0600) and folders (0700) if
// need be and bringing an older schema up to date. A file that is there and may not be
// written, such as one on a read-only disk, is opened for reading: each write is
// refused with code unavailable. Close the store after use.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "sqlite store: path %q is not possible", path)
	}
	err = makeFile(path)
	if err == nil {
		b, openErr := openFile(ctx, path, o)
		if err = openErr; err == nil {
			return open(ctx, b, path, o)
		}
	}
	if mayNotWrite(err) {
		if b, readErr := openToRead(ctx, path, o); readErr == nil {
			s, openErr := open(ctx, b, path, o)
			if openErr == nil {
				s.readOnly = mapError(path)(err)
			}
			return s, openErr
		}
	}
	return nil, mapError(path)(err)
}

// OpenMemory opens an empty store that lives in this process only and is gone
// when it is closed.
func OpenMemory(ctx context.Context, o Options) (*Store, error) {
	writes, err := sql.Open("sqlite", "file::memory:?"+pragmas)
	if err != nil {
		return nil, mapError("")(err)
	}
	b := newBackend(writes, o)
	if err := b.start(ctx, ""); err != nil {
		_ = b.Close()
		return nil, mapError("")(err)
	}
	return open(ctx, b, "", o)
}

func open(ctx context.Context, b *backend, path string, o Options) (*Store, error) {
	schema := o.schema
	if schema == nil {
		sub, err := fs.Sub(schemaFiles, "schema")
		if err != nil {
			return nil, err
		}
		schema = sub
	}
	s, err := sqlstore.New(ctx, b, sqlstore.Dialect{
		Name:        "sqlite",
		Schema:      schema,
		MapError:    mapError(path),
		TableExists: `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?`,
	}, sqlstore.Options{Clock: o.Clock, Removing: o.Removing, Committed: o.Committed})
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	store := &Store{Store: s, path: path}
	if path != "" {
		if store.file, err = os.Stat(path); err != nil {
			_ = s.Close()
			return nil, mapError(path)(err)
		}
	}
	return store, nil
}

// Intact reports whether the path still names the file that was opened: a file
// that was deleted or replaced goes on to be written by those who have it open,
// and is seen by nobody else.
func (s *Store) Intact() error {
	if s.file == nil {
		return nil
	}
	now, err := os.Stat(s.path)
	if err == nil && os.SameFile(now, s.file) {
		return nil
	}
	return agent.Errorf(agent.CodeUnavailable, "sqlite store %s was deleted or replaced while it was open: what is written here is seen by nobody; stop, restore the file if it was a mistake, and start again", s.path)
}

// makeFile makes the file and its folders for their owner only: conversations
// are private. SQLite gives its side files the mode of the main one.
func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return agent.Wrap(err, agent.CodeUnavailable, "sqlite store %s: its folder cannot be made: check the path and its permissions, or name another store", path)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return agent.Wrap(err, agent.CodeUnavailable, "sqlite store %s cannot be opened for writing: check that the file and its folder are writable for this user, or name another store", path)
	}
	return f.Close()
}

// fileURI is the path as SQLite reads it, whatever characters it contains.
func fileURI(path, query string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	return "file:" + u.EscapedPath() + "?" + query
}

// primary is SQLite's result code without its extension; 0 for other errors.
func primary(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isBusy reports whether somebody else holds a lock that is needed.
func isBusy(err error) bool {
	code := primary(err)
	return code == lib.SQLITE_BUSY || code == lib.SQLITE_LOCKED
}

func broken(err error) error { return fmt.Errorf("%w: %w", memory.ErrBroken, err) }

// mapError says what a SQLite error means for a person, and that it may be
// tried again.
func mapError(path string) func(error) error {
	if path == "" {
		path = "in memory"
	}
	return func(err error) error {
		var what string
		switch primary(err) {
		case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
			what = "is held by another process: end programs that keep it open for long (a backup, a database browser), then try again"
		case lib.SQLITE_FULL:
			what = "cannot grow, the disk is full: free some space, then try again; nothing was changed"
		case lib.SQLITE_READONLY:
			what = "is read-only: make the file and its folder writable for this user, then try again"
		case lib.SQLITE_CANTOPEN:
			what = "cannot be opened: check that the file and its folder exist and are writable for this user"
		case lib.SQLITE_IOERR:
			what = "cannot be read or written: check the disk (space, health, file size limits), then try again"
		case lib.SQLITE_PERM, lib.SQLITE_AUTH:
			what = "may not be used by this user: check its permissions"
		case lib.SQLITE_NOTADB:
			return agent.Wrap(broken(err), agent.CodeInvalid, "sqlite store %s is not a SQLite database: name another file; it was left as it is", path)
		case lib.SQLITE_CORRUPT:
			return agent.Wrap(broken(err), agent.CodeInternal, "sqlite store %s is damaged: stop all programs that use it and restore a backup, or recover it with the sqlite3 program's .recover", path)
		default:
			return err
		}
		return agent.Wrap(err, agent.CodeUnavailable, "sqlite store %s %s", path, what)
	}
}

// mayNotWrite reports whether a store could not be opened because its file or folder
// may not be written.
func mayNotWrite(err error) bool {
	code := primary(err)
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || code == lib.SQLITE_READONLY || code == lib.SQLITE_CANTOPEN
}

// openToRead opens a file that may not be written. SQLite needs to write beside a file
// whose last commits stand in the write-ahead log: then a copy is read.
func openToRead(ctx context.Context, path string, o Options) (*backend, error) {
	query, done := "mode=ro&immutable=1&", func() {}
	switch info, err := os.Stat(path + "-wal"); {
	case err == nil && info.Size() > 0:
		dir, err := os.MkdirTemp("", "spool-read-")
		if err != nil {
			return nil, err
		}
		done = func() { _ = os.RemoveAll(dir) }
		to := filepath.Join(dir, "spool.db")
		if err := errors.Join(copyFile(path, to), copyFile(path+"-wal", to+"-wal")); err != nil {
			done()
			return nil, err
		}
		path, query = to, ""
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	uri := fileURI(path, query+readPragmas)
	writes, err := sql.Open("sqlite", uri)
	if err != nil {
		done()
		return nil, err
	}
	b := newBackend(writes, o)
	b.begin, b.done = `BEGIN`, done
	if err := b.start(ctx, ""); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b.withReads(ctx, uri, o)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

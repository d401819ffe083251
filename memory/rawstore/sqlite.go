package rawstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/atomicfile"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Options of a place; the zero value is what programs use.
type Options struct {
	// Wait is how long to wait for other writers; 0 = 30 s.
	Wait time.Duration
}

func (o Options) wait() time.Duration {
	if o.Wait > 0 {
		return o.Wait
	}
	return 30 * time.Second
}

const (
	// The long wait for locks is ours, which can end with its caller.
	pragmas     = "_pragma=busy_timeout(20)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	readPragmas = "_pragma=busy_timeout(20)&_pragma=query_only(1)"
	readers     = 4
)

// SQLite makes a Persistence in a SQLite file of its own, or in that of a whole
// store. File (mode 0600) and folders (0700) are made by the first access.
func SQLite(path string, o Options) *SQL {
	return NewSQL(Dialect{
		Name:        "sqlite memory " + path,
		TableExists: `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?`,
		Retry:       patiently(o.wait()),
		MapError:    func(err error) error { return mapSQLite("sqlite memory "+path, err) },
	}, func() (write, read *sql.DB, err error) { return openSQLite(path) })
}

func openSQLite(path string) (write, read *sql.DB, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, nil, err
	}
	if err := atomicfile.MakeDir(filepath.Dir(path)); err != nil {
		return nil, nil, atomicfile.Explain(err, "sqlite memory "+path)
	}
	// SQLite gives its side files the mode of the main one.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, atomicfile.Explain(err, "sqlite memory "+path)
	}
	if err := f.Close(); err != nil {
		return nil, nil, atomicfile.Explain(err, "sqlite memory "+path)
	}
	// Commits wait for a file's data and size only: as durable, and faster.
	syncDataOnly()
	if write, err = sql.Open("sqlite", uri(path, "_txlock=immediate&"+pragmas)); err != nil {
		return nil, nil, err
	}
	write.SetMaxOpenConns(1)
	write.SetMaxIdleConns(1)
	if read, err = sql.Open("sqlite", uri(path, readPragmas)); err != nil {
		return nil, nil, errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	return write, read, nil
}

var syncDataOnly = sync.OnceFunc(func() { _, _ = driver.Fdatasync(true) })

// uri is the path as SQLite reads it, whatever characters it contains.
func uri(path, query string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	return "file:" + u.EscapedPath() + "?" + query
}

// patiently repeats what finds the file locked.
func patiently(wait time.Duration) func(context.Context, func() error) error {
	return func(ctx context.Context, f func() error) error {
		deadline := time.Now().Add(wait)
		for {
			err := f()
			if code := primary(err); code != lib.SQLITE_BUSY && code != lib.SQLITE_LOCKED {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("locked for %s: %w", wait, err)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond + rand.N(4*time.Millisecond)):
			}
		}
	}
}

// primary is SQLite's result code without its extension; 0 for other errors.
func primary(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func mapSQLite(what string, err error) error {
	switch primary(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return agent.Wrap(err, agent.CodeUnavailable, "%s is held by another process: end programs that keep it open for long, then try again; nothing was changed", what)
	case lib.SQLITE_FULL:
		return agent.Wrap(err, agent.CodeUnavailable, "%s cannot grow, the disk is full: free some space, then try again; nothing was changed", what)
	case lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return agent.Wrap(err, agent.CodeUnavailable, "%s cannot be opened for writing: make the file and its folder writable for this user, then try again; nothing was changed", what)
	case lib.SQLITE_NOTADB:
		return agent.Wrap(err, agent.CodeInvalid, "%s is not a SQLite database: name another file; it was left as it is", what)
	case lib.SQLITE_CORRUPT:
		return agent.Wrap(err, agent.CodeInternal, "%s is damaged: stop all programs that use it and restore a backup, or recover it with the sqlite3 program's .recover", what)
	}
	return err
}

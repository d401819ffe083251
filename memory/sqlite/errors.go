package sqlite

import (
	"errors"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

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

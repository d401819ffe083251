package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	lib "modernc.org/sqlite/lib"
)

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

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// errLocked is what tryLock returns if another process holds the lock.
var errLocked = errors.New("held by another process")

// fileLock keeps two servers off one database: SQLite takes no lock of its own
// between transactions, and two servers on one file both report ready. The
// operating system drops it with the process, however that ends.
type fileLock struct{ file *os.File }

// lockFile claims path by a lock on path.lock, which stays behind: removing it
// would let two processes hold locks on two files of the same name.
func lockFile(path string) (*fileLock, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file of %s: %w", path, err)
	}
	if err := tryLock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		holder, _ := io.ReadAll(io.LimitReader(f, 32)) // only for the message
		return nil, fmt.Errorf("%s is in use by another devserver (pid %s): stop that one, or give another --db", path, strings.TrimSpace(string(holder)))
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0) // only for messages
	}
	return &fileLock{file: f}, nil
}

func (l *fileLock) release() { _ = l.file.Close() }

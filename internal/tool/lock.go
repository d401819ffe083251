package tool

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

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

package atomicfile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/spool-agents/spool/agent"
)

// Lock takes the lock that the file at path stands for, against other processes
// and against other callers in this one. It waits for others up to wait, or
// until ctx ends. The file stays when the lock is released: removing it would
// let two holders in. The lock of a process that dies is free at once.
func Lock(ctx context.Context, path string, wait time.Duration) (release func(), err error) {
	file := flock.New(path, flock.SetPermissions(0o600))
	held, err := file.TryLock()
	if !held && err == nil {
		limited, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		_, err = file.TryLockContext(limited, 3*time.Millisecond)
	}
	if err != nil {
		_ = file.Close()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = agent.Errorf(agent.CodeUnavailable, "%s is held by another process for more than %s: end programs that keep it for long, then try again; nothing was changed", path, wait)
		}
		return nil, err
	}
	return sync.OnceFunc(func() { _ = file.Close() }), nil
}

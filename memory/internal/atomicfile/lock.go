package atomicfile

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
)

// errLocked means that somebody else holds the lock.
var errLocked = errors.New("locked")

// Lock takes the lock that the file at path stands for, against other processes
// and against other callers in this one. It waits for others up to wait, or
// until ctx ends. The file stays when the lock is released: removing it would
// let two holders in. The lock of a process that dies is free at once.
func Lock(ctx context.Context, path string, wait time.Duration) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(wait)
	for {
		err := tryLock(f)
		if err == nil {
			return sync.OnceFunc(func() { _ = f.Close() }), nil // closing unlocks
		}
		if errors.Is(err, errLocked) {
			if time.Now().After(deadline) {
				err = agent.Errorf(agent.CodeUnavailable, "%s is held by another process for more than %s: end programs that keep it for long, then try again; nothing was changed", path, wait)
			} else {
				select {
				case <-ctx.Done():
					err = ctx.Err()
				case <-time.After(time.Millisecond + rand.N(4*time.Millisecond)):
					continue
				}
			}
		}
		_ = f.Close()
		return nil, err
	}
}

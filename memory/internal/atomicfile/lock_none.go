//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package atomicfile

import (
	"os"
	"runtime"

	"github.com/spool-agents/spool/agent"
)

// Without a lock two processes could lose each other's writes, so it is refused.
func tryLock(*os.File) error {
	return agent.Errorf(agent.CodeInvalid, "files cannot be locked between processes on %s: use a SQLite store there", runtime.GOOS)
}

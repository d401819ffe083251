//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
)

// Executable is the path that starts the caller's own program again.
func Executable() (string, error) { return os.Executable() }

func becomeReaper() {}

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd is not known here.
func awaitEnd(int) bool { return false }

// descendants is empty: without a child subreaper the process group has to do.
func descendants(int) []int { return nil }

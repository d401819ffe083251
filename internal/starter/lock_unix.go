//go:build unix

package starter

import (
	"os"
	"syscall"
)

// tryLock takes a lock that ends with the process; false means that another has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

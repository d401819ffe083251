package postgres

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence makes the system end a connection whose peer acknowledges nothing.
func boundSilence(c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(err, set)
}

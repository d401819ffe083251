//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package starter

import (
	"os"

	"golang.org/x/sys/unix"
)

// keyByKey lets a terminal pass on each key as it is pressed, without echo; its
// keys for signals go on to work. restore puts it back as it was.
func keyByKey(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, unix.TIOCGETA)
	if err != nil {
		return nil, err
	}
	raw := *was
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Iflag &^= unix.ICRNL
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TIOCSETA, &raw); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TIOCSETA, was) }, nil
}

// flushInput drops what a terminal holds that nobody has read.
func flushInput(f *os.File) { _ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, unix.TCIFLUSH) }

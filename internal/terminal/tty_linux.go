package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput drops what a terminal holds that nobody has read.
func flushInput(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }

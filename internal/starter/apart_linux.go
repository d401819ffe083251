package starter

import "syscall"

// apart keeps a part out of the terminal's signals, which this process passes on
// in order, and lets the kernel end it should this process die.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

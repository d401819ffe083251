package devstack

import "syscall"

// apart keeps a part out of the terminal's signals, which this process passes on
// in order, and lets the kernel send it a signal should this process die.
func apart(atDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: atDeath}
}

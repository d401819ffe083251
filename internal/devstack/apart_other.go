//go:build !linux

package devstack

import "syscall"

// apart has nothing to add here: parts end with their stdin.
func apart(syscall.Signal) *syscall.SysProcAttr { return nil }

//go:build !linux

package postgres

import "syscall"

// boundSilence leaves it to keep-alive to notice a peer that is gone.
func boundSilence(syscall.RawConn) error { return nil }

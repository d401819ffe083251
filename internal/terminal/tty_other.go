//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package terminal

import "os"

// flushInput is not built for this system.
func flushInput(*os.File) {}

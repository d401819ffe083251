//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package terminal

import (
	"errors"
	"os"
)

// keyByKey is not built for this system: lines are read as the terminal gives them.
func keyByKey(*os.File) (restore func(), err error) {
	return nil, errors.New("not built for this system")
}

func flushInput(*os.File) {}

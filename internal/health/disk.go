package health

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// Disk is the part of folders that are written to. One that is not there yet, or that
// this program may not write to, is nothing that is missing: only a disk that is full
// or broken is.
func Disk(folders ...string) Part {
	return Part{Name: DiskPart, Check: func(context.Context) error {
		for _, folder := range folders {
			if err := try(folder); full(err) {
				return err
			}
		}
		return nil
	}}
}

func try(folder string) error {
	f, err := os.CreateTemp(folder, ".spool-disk-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

func full(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

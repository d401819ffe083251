package health

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"

	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/memory"
)

// Names of parts.
const (
	StorePart    = "store"
	TemporalPart = "temporal"
	DiskPart     = "disk"
	WorkerPart   = "worker"
	ModelPart    = "model"
)

// Store is the part of a store.
func Store(s memory.Reader) Part {
	return Part{Name: StorePart, Check: func(ctx context.Context) error {
		_, err := s.Changed(ctx)
		return err
	}}
}

// Temporal is the part of a Temporal server.
func Temporal(c client.Client) Part {
	return Part{Name: TemporalPart, Check: func(ctx context.Context) error {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}}
}

// Polled is the part of workers that poll for tasks, which workers counts. A program that
// hands work to them is ready without them.
func Polled(workers func(context.Context) int) Part {
	return Part{Name: WorkerPart, Optional: true, Check: func(ctx context.Context) error {
		if workers(ctx) == 0 {
			return errors.New("none polls for tasks")
		}
		return nil
	}}
}

// Taking is the part of a worker that takes tasks, or does not.
func Taking(takes func() bool) Part {
	return Part{Name: WorkerPart, Check: func(context.Context) error {
		if !takes() {
			return errors.New("it takes no tasks")
		}
		return nil
	}}
}

// Disk is the part of folders that are written to. One that is not there yet, or that
// this program may not write to, is nothing that is missing: only a disk that is full
// or broken is.
func Disk(folders ...string) Part {
	return Part{Name: DiskPart, Check: func(context.Context) error {
		for _, folder := range folders {
			err := try(folder)
			if slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO}, func(e error) bool { return errors.Is(err, e) }) {
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

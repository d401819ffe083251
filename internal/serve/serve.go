// Package serve keeps a Temporal worker at work for as long as its host can do the
// work: one whose store is away, or whose disk is full, takes no tasks, so that other
// workers get them.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

const (
	lookEvery = time.Second
	// missFor is how long a part has to be missing before the worker leaves.
	missFor = 2 * time.Second
	// handOverWithin is how long activities that have to stop may take for it.
	handOverWithin = 3 * time.Second
	// never is longer than any worker lives: when it has waited long enough is for
	// Server to say, as it depends on why the worker stops.
	never = 10 * 365 * 24 * time.Hour
	// temporalPart is what is missing when a worker cannot start.
	temporalPart = "temporal"
)

// Server runs a worker. Its fields are set before Run.
type Server struct {
	Client    client.Client
	TaskQueue string
	Options   worker.Options
	// Register adds workflows and activities to a worker. It is called for each one
	// that is made: the SDK's cannot be started again.
	Register func(worker.Registry)
	// Beside runs while tasks are taken. If it ends with an error, the worker ends.
	Beside func(context.Context) error
	// Missing names what the host lacks for its work, and what is wrong with it; ""
	// means that nothing is missing.
	Missing func() (part, problem string)
	// Cut ends what runs: activities end themselves when it does.
	Cut context.Context
	Log *slog.Logger

	taking atomic.Bool
}

// Taking reports whether tasks are taken.
func (s *Server) Taking() bool { return s.taking.Load() }

// Run takes tasks until ctx ends. Then it waits for what runs until Cut ends, and a
// little longer for handing it over.
func (s *Server) Run(ctx context.Context) error {
	var leaving sync.WaitGroup // workers that take no more tasks
	part, err := s.work(ctx, &leaving)
	for err == nil && part != "" && s.back(ctx) {
		s.Log.Info("what was missing is back", "part", part)
		if part, err = s.work(ctx, &leaving); part == temporalPart {
			s.Log.Warn("the worker cannot be started again; it is tried once more", "error", err)
			err = nil
			pause(ctx)
		}
	}
	left := make(chan struct{})
	go func() {
		leaving.Wait()
		close(left)
	}()
	if ctx.Err() != nil {
		s.Log.Info("this worker takes no more tasks; it ends with what it runs")
		select {
		case <-left:
		case <-s.Cut.Done():
		}
	}
	select {
	case <-left:
	case <-time.After(handOverWithin):
	}
	return err
}

// work runs one worker until ctx ends or a part is missing, which it names. It has
// stopped taking tasks then; leaving tells when all that it took has ended.
func (s *Server) work(ctx context.Context, leaving *sync.WaitGroup) (part string, err error) {
	lost, lose := context.WithCancel(context.Background())
	o := s.Options
	o.WorkerStopTimeout = never
	o.Interceptors = append(slices.Clone(o.Interceptors), &giveBack{lost: lost})
	w := worker.New(s.Client, s.TaskQueue, o)
	s.Register(w)
	if err := w.Start(); err != nil {
		lose()
		return temporalPart, err
	}
	s.taking.Store(true)
	s.Log.Info("worker ready", "taskQueue", s.TaskQueue)
	ctx, end := context.WithCancel(ctx)
	beside, missing := make(chan error, 1), make(chan string, 1)
	go func() { beside <- s.Beside(ctx) }()
	go func() { missing <- s.watch(ctx) }()
	select {
	case <-ctx.Done():
	case err = <-beside:
		beside <- nil
	case part = <-missing:
	}
	s.taking.Store(false)
	if part != "" {
		lose()
	}
	leaving.Go(func() {
		w.Stop()
		lose()
	})
	end()
	return part, errors.Join(err, <-beside)
}

// watch returns the part that is missing, or "" when ctx ends.
func (s *Server) watch(ctx context.Context) string {
	var since time.Time
	for {
		began := time.Now()
		part, problem := s.Missing()
		switch {
		case part == "":
			since = time.Time{}
		case since.IsZero():
			since = began
		}
		if part != "" && time.Since(since) >= missFor {
			s.Log.Warn("this worker takes no tasks until what is missing is back; other workers get what it had", "part", part, "problem", problem)
			return part
		}
		if !pause(ctx) {
			return ""
		}
	}
}

// back waits until nothing is missing. It reports whether that was so before ctx ended.
func (s *Server) back(ctx context.Context) bool {
	for {
		if part, _ := s.Missing(); part == "" && ctx.Err() == nil {
			return true
		}
		if !pause(ctx) {
			return false
		}
	}
}

func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(lookEvery):
		return true
	}
}

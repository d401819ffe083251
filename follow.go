package spool

import (
	"cmp"
	"context"
	"time"

	"github.com/spool-agents/spool/internal/follow"
)

// Follow delivers what a thread emits, from cursor on: its events in order of seq
// and the text that is being streamed. Going on from the cursor of the last update
// loses nothing and repeats nothing. It reads the store only, also after the end
// of a turn, and waits for a store that cannot be reached. An error of f ends it.
//
// A sub-agent's updates come before its parent's event that reports its end.
func (c *Client) Follow(ctx context.Context, threadID, cursor string, o FollowOptions, f func(Update) error) error {
	t, err := c.Thread(ctx, threadID)
	if err != nil {
		return err
	}
	return follow.Follow(ctx, c.store, t, cursor, o, f)
}

// Watch calls f now and whenever something may have been committed to the store,
// until f or ctx ends it. A store that cannot be reached is waited for.
func (c *Client) Watch(ctx context.Context, f func() error) error {
	return follow.Store(ctx, c.store, func() (bool, error) { return false, f() })
}

const (
	// noWorkerAfter is how long a message may wait before Wait looks for workers.
	noWorkerAfter = 5 * time.Second
	// deserted is how many looks in a row must find none while a turn is open, as a
	// server that was started again does not know its workers for a while, or while
	// the run is on another queue, as workers then take its thread over.
	deserted = 5
)

// WaitOptions say how long to wait.
type WaitOptions struct {
	// Patient waits also for people (approvals, questions) and for a worker to come
	// up; otherwise Wait returns the status waiting_for_approval, waiting_for_user
	// or stored.
	Patient bool
}

// Wait returns when a turn is closed, or needs a person. It reads the store only, so
// that it also works while Temporal cannot be reached. A store that cannot be reached
// is waited for.
func (c *Client) Wait(ctx context.Context, threadID, turnID string, o WaitOptions) (r Reply, err error) {
	asked, missing, queue := time.Now(), 0, ""
	err = follow.Thread(ctx, c.store, threadID, noWorkerAfter, func(changed bool) (done bool, err error) {
		if changed {
			if r, done, err = c.Look(ctx, threadID, turnID, o.Patient); err != nil || done {
				return done, err
			}
		}
		if o.Patient || time.Since(asked) < noWorkerAfter {
			return false, nil
		}
		asked = time.Now()
		if queue == "" { // a run stays on its own
			queue = c.runQueue(ctx, threadID)
		}
		on := cmp.Or(queue, c.o.TaskQueue)
		checked := c.servedOn(r, on, c.temporal == nil || c.lately.Polled(ctx, c.temporal, on, noWorkerAfter*4/5))
		if missing++; checked.Status != StatusStored {
			missing = 0
		} else {
			queue = "" // another may take its place
		}
		if missing >= deserted || missing > 0 && r.Status == StatusQueued && c.Workers(ctx) == 0 {
			r = checked
			return true, nil
		}
		return false, nil
	})
	return r, err
}

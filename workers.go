package spool

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/internal/runs"
	"github.com/spool-agents/spool/memory/filestore"
	"github.com/spool-agents/spool/memory/sqlite"
)

// Workers counts who polls the task queue; 0 also if Temporal cannot be asked.
func (c *Client) Workers(ctx context.Context) int {
	return c.WorkersOf(ctx, c.o.TaskQueue)
}

// WorkersOf is Workers for another task queue.
func (c *Client) WorkersOf(ctx context.Context, queue string) int {
	found, _, _ := c.pollers(ctx, queue)
	return len(found)
}

// Serving reports whether a worker polls the task queue whose identity has a part: @PID@ for
// a process, @HOST@ for a machine or container.
func (c *Client) Serving(ctx context.Context, part string) bool {
	found, _, _ := c.pollers(ctx, c.o.TaskQueue)
	// The SDK's identity is PID@HOST@ and, of some workers, the task queue.
	return slices.ContainsFunc(found, func(identity string) bool { return strings.Contains("@"+identity+"@", part) })
}

// Heard lists who polls the task queue, by their identities, and says how long ago the
// youngest of their requests began. An idle worker asks about once a minute, and one
// that died is counted until its last request is older than any can last.
func (c *Client) Heard(ctx context.Context) (workers []string, ago time.Duration) {
	workers, ago, _ = c.pollers(ctx, c.o.TaskQueue)
	return workers, ago
}

// pollers are the identities of a task queue's workers and the age of the youngest of
// their requests, or not ok if Temporal cannot be asked.
func (c *Client) pollers(ctx context.Context, queue string) (found []string, ago time.Duration, ok bool) {
	if c.temporal == nil {
		return nil, 0, false
	}
	return runs.Pollers(ctx, c.temporal, queue)
}

// Served checks whether anybody runs what a Reply calls running or queued. If
// nobody polls the task queue, its status becomes stored, with a note. If Temporal
// cannot be asked, or there is nothing to run, the Reply is returned as it is.
func (c *Client) Served(ctx context.Context, r Reply) Reply {
	if !r.Moving() {
		return r
	}
	queue := cmp.Or(c.runQueue(ctx, r.ThreadID), c.o.TaskQueue)
	found, _, ok := c.pollers(ctx, queue)
	return c.servedOn(r, queue, len(found) > 0 || !ok)
}

// servedOn is Served for a thread whose run is on a task queue that somebody polls or not.
func (c *Client) servedOn(r Reply, queue string, polled bool) Reply {
	note := "no worker polls the task queue " + queue + "; it runs when one is started"
	switch {
	case polled || !r.Moving():
		return r
	case queue != c.o.TaskQueue:
		note = "the open run of thread " + r.ThreadID + " is on the task queue " + queue + ", which no worker polls (here it is " + c.o.TaskQueue +
			"); it goes on when a worker is started with SPOOL_TASK_QUEUE=" + queue + ", or if its turn has not begun when a worker of this store notices"
	case c.alone():
		note = "this store serves one process, and none runs a worker on it now; it runs with the next send, chat or dev on this store"
	}
	r.Status, r.Note = StatusStored, "saved, but not running: "+note+", and repeating it with the same id is safe"
	return r
}

// alone reports whether the store serves one process, which runs the worker itself.
func (c *Client) alone() bool {
	switch s := c.store.(type) {
	case *filestore.Store:
		return true
	case *sqlite.Store:
		return s.Path() == "" // memory:
	}
	return false
}

// runQueue is the task queue of a thread's open run; "" if it has none, or Temporal cannot
// say.
func (c *Client) runQueue(ctx context.Context, threadID string) string {
	d, err := c.describe(ctx, threadID)
	if err != nil || !isOpen(d) {
		return ""
	}
	return d.RawResponse.GetExecutionConfig().GetTaskQueue().GetName()
}

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

// Serving reports whether a process with this identity polls the task queue.
func (c *Client) Serving(ctx context.Context, prefix string) bool {
	found, _, _ := c.pollers(ctx, c.o.TaskQueue)
	return slices.ContainsFunc(found, func(identity string) bool { return strings.HasPrefix(identity, prefix) })
}

// ServingOn reports whether a worker on the machine or in the container with this host
// name polls the task queue.
func (c *Client) ServingOn(ctx context.Context, host string) bool {
	found, _, _ := c.pollers(ctx, c.o.TaskQueue)
	// The SDK's identity is PID@HOST@ and, of some workers, the task queue.
	return slices.ContainsFunc(found, func(identity string) bool { return strings.Contains(identity+"@", "@"+host+"@") })
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
	if note := c.unserved(ctx, r.ThreadID); note != "" {
		r.Status = StatusStored
		r.Note = "saved, but not running: " + note + ", and repeating it with the same message id is safe"
	}
	return r
}

// unserved says that nobody polls the task queue of a thread's open run, or of
// this store if it has none. It is empty if somebody does or nobody can tell.
func (c *Client) unserved(ctx context.Context, threadID string) string {
	queue := c.queueOf(ctx, threadID)
	found, _, ok := c.pollers(ctx, queue)
	switch {
	case !ok || len(found) > 0:
		return ""
	case queue == c.o.TaskQueue && c.alone():
		return "this store serves one process, and none runs a worker on it now; it runs with the next send, chat or dev on this store"
	case queue == c.o.TaskQueue:
		return "no worker polls the task queue " + queue + "; it runs when one is started"
	}
	return "the open run of thread " + threadID + " is on the task queue " + queue + ", which no worker polls (here it is " + c.o.TaskQueue +
		"); it goes on when a worker is started with SPOOL_TASK_QUEUE=" + queue + ", or if its turn has not begun when a worker of this store notices"
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

// queueOf is the task queue of a thread's open run, else that of this client.
func (c *Client) queueOf(ctx context.Context, threadID string) string {
	d, err := c.describe(ctx, threadID)
	if err == nil && isOpen(d) {
		return cmp.Or(d.RawResponse.GetExecutionConfig().GetTaskQueue().GetName(), c.o.TaskQueue)
	}
	return c.o.TaskQueue
}

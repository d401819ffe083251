package spool

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/filestore"
)

// Served checks whether anybody runs what a Reply calls running or queued. If
// nobody polls the task queue, its status becomes stored, with a note. If Temporal
// cannot be asked, or there is nothing to run, the Reply is returned as it is.
func (c *Client) Served(ctx context.Context, r Reply) Reply {
	if r.Status != StatusQueued && r.Status != string(agent.ThreadRunning) {
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
	found, ok := c.pollersOf(ctx, queue)
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
	_, files := c.store.(*filestore.Store)
	return files
}

// queueOf is the task queue of a thread's open run, else that of this client.
func (c *Client) queueOf(ctx context.Context, threadID string) string {
	if c.temporal == nil {
		return c.o.TaskQueue
	}
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	d, err := c.temporal.DescribeWorkflow(ctx, threadID, "")
	if err != nil || d.RawResponse.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return c.o.TaskQueue
	}
	if name := d.RawResponse.GetExecutionConfig().GetTaskQueue().GetName(); name != "" {
		return name
	}
	return c.o.TaskQueue
}

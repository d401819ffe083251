package runs

import (
	"context"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/client"
)

// pollerAge is how old a poller's last request may be: pollers stay listed for
// minutes after their death, and a long poll lasts a minute.
const pollerAge = 75 * time.Second

// Pollers are the identities of a task queue's workers and the age of the youngest of
// their requests, or not ok if Temporal cannot be asked.
func Pollers(ctx context.Context, c client.Client, queue string) (found []string, ago time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	d, err := c.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	found, ago = alive(d.GetPollers(), time.Now())
	return found, ago, err == nil
}

// alive lists the identities of pollers that may still be there, and how long ago the
// youngest of their requests began.
func alive(list []*taskqueuepb.PollerInfo, now time.Time) (found []string, ago time.Duration) {
	ago = pollerAge
	for _, p := range list {
		since := now.Sub(p.GetLastAccessTime().AsTime())
		if since >= pollerAge {
			continue
		}
		ago = max(0, min(ago, since)) // the server's clock may be ahead
		if !slices.Contains(found, p.GetIdentity()) {
			found = append(found, p.GetIdentity())
		}
	}
	return found, ago
}

package runs

import (
	"context"
	"slices"
	"sync"
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

// Lately is what was known of task queues a moment ago, for those who ask again and again. The
// zero value knows nothing. It is safe for concurrent use: many who ask at once ask once.
type Lately struct {
	mu sync.Mutex
	of map[string]polled
}

type polled struct {
	by bool
	at time.Time
}

// Polled reports whether somebody polls a task queue, or Temporal cannot be asked, as it
// was within a time.
func (l *Lately) Polled(ctx context.Context, c client.Client, queue string, within time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, known := l.of[queue]
	if !known || time.Since(p.at) >= within {
		found, _, ok := Pollers(context.WithoutCancel(ctx), c, queue) // for the others as well
		if l.of == nil {
			l.of = map[string]polled{}
		}
		p = polled{len(found) > 0 || !ok, time.Now()}
		l.of[queue] = p
	}
	return p.by
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

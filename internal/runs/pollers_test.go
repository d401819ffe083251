package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A poller that is listed still, but whose last request is older than any can last, is
// gone; the youngest says how old the news is.
func TestPollersThatMayStillBeThere(t *testing.T) {
	now := time.Now()
	heard := func(identity string, ago time.Duration) *taskqueuepb.PollerInfo {
		return &taskqueuepb.PollerInfo{Identity: identity, LastAccessTime: timestamppb.New(now.Add(-ago))}
	}
	for name, c := range map[string]struct {
		list  []*taskqueuepb.PollerInfo
		found []string
		ago   time.Duration
	}{
		"none":        {nil, nil, pollerAge},
		"gone":        {[]*taskqueuepb.PollerInfo{heard("1@h@", 76*time.Second), heard("2@h@", 4*time.Minute)}, nil, pollerAge},
		"idle":        {[]*taskqueuepb.PollerInfo{heard("1@h@", 4*time.Minute), heard("2@h@", 40*time.Second)}, []string{"2@h@"}, 40 * time.Second},
		"both":        {[]*taskqueuepb.PollerInfo{heard("1@h@", 40*time.Second), heard("2@h@", 3*time.Second), heard("2@h@", 9*time.Second)}, []string{"1@h@", "2@h@"}, 3 * time.Second},
		"clock ahead": {[]*taskqueuepb.PollerInfo{heard("1@h@", -5*time.Second)}, []string{"1@h@"}, 0},
	} {
		found, ago := alive(c.list, now)
		assert.Equal(t, c.found, found, name)
		assert.Equal(t, c.ago, ago, name)
	}
}

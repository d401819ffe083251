package spool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spool-agents/spool/agent"
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

// Where no worker polls, a reply says what has to be started: the next command for
// stores that serve one process, a worker for others.
func TestServedNamesWhatIsMissing(t *testing.T) {
	for spec, want := range map[string]string{"memory:": "serves one process", "file:" + t.TempDir(): "serves one process", "sqlite:" + t.TempDir() + "/s.db": "no worker polls"} {
		store, err := OpenStore(t.Context(), spec)
		require.NoError(t, err)
		temporal := &mocks.Client{}
		temporal.On("DescribeTaskQueue", mock.Anything, mock.Anything, mock.Anything).Return(&workflowservice.DescribeTaskQueueResponse{}, nil)
		temporal.On("DescribeWorkflow", mock.Anything, mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("no run"))
		r := NewClient(store, temporal, ClientOptions{}).Served(t.Context(), Reply{ThreadID: "s/default", Status: string(agent.ThreadRunning)})
		assert.Equal(t, StatusStored, r.Status)
		assert.Contains(t, r.Note, want, spec)
		require.NoError(t, store.Close())
	}
}

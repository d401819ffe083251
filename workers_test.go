package spool

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

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

// A hundred who wait ask Temporal for each thread's run once, and together once in a while
// who polls its task queue.
func TestThoseWhoWaitAskTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := OpenStore(t.Context(), "memory:")
		require.NoError(t, err)
		defer store.Close()
		temporal := &mocks.Client{}
		temporal.On("DescribeTaskQueue", mock.Anything, "elsewhere", mock.Anything).Return(&workflowservice.DescribeTaskQueueResponse{
			Pollers: []*taskqueuepb.PollerInfo{{Identity: "1@host@", LastAccessTime: timestamppb.New(time.Now().Add(time.Hour))}}}, nil)
		temporal.On("DescribeWorkflow", mock.Anything, mock.Anything, mock.Anything).Return(&client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{
			ExecutionConfig:       &workflowpb.WorkflowExecutionConfig{TaskQueue: &taskqueuepb.TaskQueue{Name: "elsewhere"}},
			WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}}}, nil)
		c := NewClient(store, temporal, ClientOptions{})
		const waiters = 100
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var all sync.WaitGroup
		for range waiters {
			sent, err := store.Send(ctx, memory.SendRequest{UserID: "u", SessionID: NewID(), MessageID: "m", Content: agent.Text("hello")})
			require.NoError(t, err)
			claim, err := store.TakeNext(ctx, memory.TakeRequest{ThreadID: sent.ThreadID, RunID: "r"})
			require.NoError(t, err)
			all.Go(func() {
				_, err := c.Wait(ctx, sent.ThreadID, claim.Turn.ID, WaitOptions{})
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		all.Wait()
		temporal.AssertNumberOfCalls(t, "DescribeWorkflow", waiters)
		asked := 0
		for _, call := range temporal.Calls {
			if call.Method == "DescribeTaskQueue" {
				asked++
			}
		}
		assert.Greater(t, asked, 2)
		assert.LessOrEqual(t, asked, 15)
	})
}

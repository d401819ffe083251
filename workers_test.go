package spool

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"

	"github.com/spool-agents/spool/agent"
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

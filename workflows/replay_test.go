package workflows_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/encryption"
	"github.com/spool-agents/spool/workflows"
)

// Row D4: histories recorded from real servers replay on this code.
func TestFault_D4_RecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no recorded histories: see TestHistoriesReplay in internal/e2e for how they are made")
	text, err := os.ReadFile("testdata/keys")
	require.NoError(t, err)
	keys, err := encryption.Load(string(text))
	require.NoError(t, err)
	var o client.Options
	keys.ApplyToWorker(&o)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: o.DataConverter, FailureConverter: o.FailureConverter})
			require.NoError(t, err)
			workflows.Register(r)
			require.NoError(t, r.ReplayWorkflowHistoryFromJSONFile(nil, f),
				"runs like this one may be open somewhere: put the change behind workflow.GetVersion; do not record the history anew")
		})
	}
}

// A nudge that comes in the workflow task in which the time to park comes is not parked
// over: nothing else would wake the run.
func TestNoRunParksOverASignal(t *testing.T) {
	file, err := os.Open("testdata/histories/parked-approval.thread1.run1.json")
	require.NoError(t, err)
	defer file.Close()
	h, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
	require.NoError(t, err)
	at := len(h.Events) - 4
	require.Equal(t, []enumspb.EventType{enumspb.EVENT_TYPE_TIMER_FIRED, enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED,
		enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW},
		[]enumspb.EventType{h.Events[at-1].EventType, h.Events[at].EventType, h.Events[at+1].EventType, h.Events[at+2].EventType, h.Events[at+3].EventType})
	nudge := &historypb.HistoryEvent{EventId: h.Events[at].EventId, EventTime: h.Events[at].EventTime, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
			WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: contract.SignalNudge},
		}}
	for _, e := range h.Events[at:] {
		e.EventId++
	}
	h.Events[at+1].GetWorkflowTaskStartedEventAttributes().ScheduledEventId++
	done := h.Events[at+2].GetWorkflowTaskCompletedEventAttributes()
	done.ScheduledEventId, done.StartedEventId = done.ScheduledEventId+1, done.StartedEventId+1
	h.Events[at+3].GetWorkflowExecutionContinuedAsNewEventAttributes().WorkflowTaskCompletedEventId++
	h.Events = slices.Insert(h.Events, at, nudge)

	r := worker.NewWorkflowReplayer()
	workflows.Register(r)
	require.ErrorContains(t, r.ReplayWorkflowHistory(nil, h), "same result as the last event", "it looks at the store once more instead")
}

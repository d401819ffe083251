package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

type history struct {
	events []*historypb.HistoryEvent
	bytes  int
	runs   int
}

// historyOf reads the whole chain of runs of a thread's latest turn, newest run last.
func historyOf(t *testing.T, s *tt.Stack, thread string) history {
	t.Helper()
	var h history
	run := ""
	for {
		var events []*historypb.HistoryEvent
		for it := s.Temporal.GetWorkflowHistory(s.Ctx(), thread, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
			e, err := it.Next()
			require.NoError(t, err)
			events = append(events, e)
			h.bytes += e.Size()
		}
		h.events = append(events, h.events...)
		h.runs++
		run = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		if run == "" {
			return h
		}
	}
}

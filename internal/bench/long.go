package main

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/spool-agents/spool"
)

// chain is what all runs of a turn came to.
type chain struct {
	runs   int
	events int64
	bytes  int64
}

// chainOf walks from the first run of a workflow to the last.
func (s *stack) chainOf(ctx context.Context, workflowID string) chain {
	var c chain
	latest := must(s.Temporal.DescribeWorkflow(ctx, workflowID, ""))
	for run := latest.RawResponse.GetWorkflowExecutionInfo().GetFirstRunId(); run != ""; c.runs++ {
		d := must(s.Temporal.DescribeWorkflow(ctx, workflowID, run))
		c.events += d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength()
		c.bytes += d.RawResponse.GetWorkflowExecutionInfo().GetHistorySizeBytes()
		last := s.Temporal.GetWorkflowHistory(ctx, workflowID, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
		if !last.HasNext() {
			fail("run %s of %s has no close event", run, workflowID)
		}
		e := must(last.Next())
		run = e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return c
}

// longConversation is what long turns start from, in bytes.
const longConversation = 800_000

// measureLong runs a turn of 1,000 tool calls to its end, and one of 5,000 if it is to take long.
func measureLong(ctx context.Context, s *stack, t *table, long bool) {
	s.startWorker(ctx)
	defer s.stopWorkers()
	for _, n := range []int{1000, 5000} {
		if n > 1000 && !long {
			return
		}
		session := spool.NewID()
		converse(ctx, s.Store, session, s.Work, longConversation)
		s.stub.play(calls(n, calculate))
		s.complete(ctx, t, s.run(ctx, session), n)
	}
}

// complete checks that a long turn made each model call once and saved all its
// messages, and adds its row.
func (s *stack) complete(ctx context.Context, t *table, r spool.Reply, n int) {
	asks := s.stub.asked(r.TurnID)
	if len(asks) != n+1 {
		for i, a := range asks {
			if a.Step != i+1 {
				before := asks[i-1]
				fail("a turn of %d tool calls made %d model calls: step %d again as attempt %d, %s after the one before; %s of requests\n%s", n, len(asks), a.Step, a.Attempt, a.At.Sub(before.At), size(int(a.Bytes)), s.Workers[0].Log())
			}
		}
	}
	messages := must(s.Store.Messages(ctx, r.ThreadID, 0, 0))
	have := 0
	for _, m := range messages {
		if m.TurnID == r.TurnID {
			have++
		}
	}
	if have != 2*n+2 {
		fail("a turn of %d tool calls saved %d messages instead of %d", n, have, 2*n+2)
	}
	c := s.chainOf(ctx, r.ThreadID)
	took := asks[n].At.Sub(asks[0].At)
	t.add(row{
		Figure: fmt.Sprintf("turn of %d tool calls on an %s conversation", n, size(longConversation)), Result: "ok",
		Value: float64(len(asks) - 1), Unit: "steps",
		Detail: fmt.Sprintf("completed in %d runs, %d events, %s of history; %.0f ms per step, last request %s",
			c.runs, c.events, size(int(c.bytes)), milliseconds(took)/float64(n), size(int(asks[n].Bytes))),
	})
	tenth := n / 10
	first, last := asks[tenth].At.Sub(asks[0].At), asks[n].At.Sub(asks[n-tenth].At)
	t.add(row{Figure: fmt.Sprintf("its last %d steps ÷ its first", tenth), Value: float64(last) / float64(first), Unit: "×", Bar: 1.3,
		Detail: fmt.Sprintf("%.0f and %.0f ms per step", milliseconds(last)/float64(tenth), milliseconds(first)/float64(tenth))})
}

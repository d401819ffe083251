package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spool-agents/spool"
)

const (
	historyBar = 2048 // bytes per step
	// historyFrom and historyTo are the steps between which the slope is taken:
	// what a run costs once does not belong to a step.
	historyFrom, historyTo = 10, 60
	// sameWithin is how far the four sizes may lie apart, as a ratio: numbers
	// with more digits and ids differ by some bytes.
	sameWithin = 1.05
)

// measureHistory finds what one step (a model call, a tool call, its saves)
// adds to the history, for small and large conversations and results.
func measureHistory(ctx context.Context, s *stack, t *table) {
	s.startWorker(ctx)
	defer s.stopWorkers()
	var all []float64
	for _, result := range []int{5_000, 500_000} {
		name := fmt.Sprintf("result-%d", result)
		check(os.WriteFile(filepath.Join(s.Work, name), []byte(filler(result)), 0o644))
		s.stub.play(calls(historyTo+1, func(step int) (string, string) {
			return "shell", fmt.Sprintf(`{"command":"cat %s # %d"}`, name, step)
		}))
		for _, conversation := range []int{1_000, 800_000} {
			const n = historyTo - historyFrom
			history, bytes := s.steps(ctx, conversation), 0.0
			for _, e := range history {
				bytes += float64(proto.Size(e)) / n
			}
			all = append(all, bytes)
			t.add(row{
				Figure: fmt.Sprintf("history per step, %s conversation, %s results", size(conversation), size(result)),
				Value:  bytes, Unit: "B", Bar: historyBar, Detail: fmt.Sprintf("%.1f events", float64(len(history))/n),
			})
		}
	}
	t.add(row{
		Figure: "largest of the four ÷ smallest", Unit: "×", Bar: sameWithin,
		Value: quantile(all, 1) / quantile(all, 0), Detail: "the same: within 5 %",
	})
}

// measureActions finds what a step costs by Temporal Cloud's bill: activities, and local
// ones once for each workflow task that runs any.
func measureActions(ctx context.Context, s *stack, t *table) {
	s.startWorker(ctx)
	defer s.stopWorkers()
	s.stub.play(calls(historyTo+1, calculate))
	from := s.steps(ctx, 1_000)
	var actions int
	tasks := map[int64]bool{}
	for _, e := range from {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enumspb.EVENT_TYPE_TIMER_STARTED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
			enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
			actions++
		case enumspb.EVENT_TYPE_MARKER_RECORDED:
			tasks[e.GetMarkerRecordedEventAttributes().GetWorkflowTaskCompletedEventId()] = true
		}
	}
	t.add(row{Figure: "billable actions per step with a local tool", Value: float64(actions+len(tasks)) / (historyTo - historyFrom), Bar: 2,
		Detail: fmt.Sprintf("%.1f events", float64(len(from))/(historyTo-historyFrom))})
}

// steps runs a turn on a conversation of a size and returns the events of the steps in
// its middle.
func (s *stack) steps(ctx context.Context, conversation int) []*historypb.HistoryEvent {
	session := spool.NewID()
	converse(ctx, s.Store, session, s.Work, conversation)
	r := s.run(ctx, session)
	history := s.events(ctx, r.ThreadID, "")
	var steps []int // index of each model call's first event
	for i, e := range history {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "CallModel" {
			steps = append(steps, i)
		}
	}
	if len(steps) <= historyTo {
		fail("the history of %s has %d model calls instead of more than %d", r.ThreadID, len(steps), historyTo)
	}
	return history[steps[historyFrom-1]:steps[historyTo-1]]
}

func (s *stack) events(ctx context.Context, workflowID, runID string) []*historypb.HistoryEvent {
	var out []*historypb.HistoryEvent
	for it := s.Temporal.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e := must(it.Next())
		out = append(out, e)
	}
	return out
}

type chain struct {
	runs   int
	events int64
	bytes  int64
}

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

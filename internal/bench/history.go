package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"

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
func measureHistory(ctx context.Context, s *stack, t *table) error {
	if _, err := s.startWorker(ctx); err != nil {
		return err
	}
	defer s.stopWorkers()
	var all []float64
	for _, result := range []int{5_000, 500_000} {
		name := fmt.Sprintf("result-%d", result)
		if err := os.WriteFile(filepath.Join(s.work, name), []byte(filler(result)), 0o644); err != nil {
			return err
		}
		s.stub.play(calls(historyTo+1, func(step int) (string, string) {
			return "shell", fmt.Sprintf(`{"command":"cat %s # %d"}`, name, step)
		}))
		for _, conversation := range []int{1_000, 800_000} {
			bytes, events, err := s.slope(ctx, conversation)
			if err != nil {
				return err
			}
			all = append(all, bytes)
			t.add(row{
				Figure: fmt.Sprintf("history per step, %s conversation, %s results", size(conversation), size(result)),
				Value:  bytes, Unit: "B", Bar: historyBar, Detail: fmt.Sprintf("%.1f events", events),
			})
		}
	}
	t.add(row{
		Figure: "largest of the four ÷ smallest", Unit: "×", Bar: sameWithin,
		Value: quantile(all, 1) / quantile(all, 0), Detail: "the same: within 5 %",
	})
	return s.measureEncrypted(ctx, quantile(all, 0), t)
}

// measureEncrypted is the same step with payloads encrypted, which has no bar: what
// it adds is the price of encrypting each payload for itself.
func (s *stack) measureEncrypted(ctx context.Context, plain float64, t *table) error {
	s.stopWorkers()
	env := s.env
	defer func() { s.env = env }()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	s.env = append(slices.Clone(env), "SPOOL_ENCRYPTION_KEYS=2026-11="+base64.StdEncoding.EncodeToString(key))
	if _, err := s.startWorker(ctx); err != nil {
		return err
	}
	bytes, events, err := s.slope(ctx, 1_000)
	if err != nil {
		return err
	}
	t.add(row{
		Figure: "history per step, encrypted", Value: bytes, Unit: "B",
		Detail: fmt.Sprintf("%.1f events; %.2f × as much as without", events, bytes/plain),
	})
	return nil
}

// slope runs a turn on a conversation of a size and returns what a step in its
// middle added.
func (s *stack) slope(ctx context.Context, conversation int) (bytes, events float64, err error) {
	session := spool.NewID()
	if err := converse(ctx, s.store, session, s.work, conversation); err != nil {
		return 0, 0, err
	}
	r, err := s.run(ctx, session)
	if err != nil {
		return 0, 0, err
	}
	history, err := s.events(ctx, r.ThreadID, "")
	if err != nil {
		return 0, 0, err
	}
	var steps []int // index of each model call's first event
	for i, e := range history {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "CallModel" {
			steps = append(steps, i)
		}
	}
	if len(steps) <= historyTo {
		return 0, 0, fmt.Errorf("the history of %s has %d model calls instead of more than %d", r.ThreadID, len(steps), historyTo)
	}
	from, to := steps[historyFrom-1], steps[historyTo-1]
	const n = historyTo - historyFrom
	for _, e := range history[from:to] {
		bytes += float64(proto.Size(e)) / n
	}
	return bytes, float64(to-from) / n, nil
}

// events reads the history of one run, the latest if runID is empty.
func (s *stack) events(ctx context.Context, workflowID, runID string) ([]*historypb.HistoryEvent, error) {
	var out []*historypb.HistoryEvent
	for it := s.temporal.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

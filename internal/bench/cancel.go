package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const cancelBar = 500 // ms

// measureCancel cancels turns in the middle of a model's stream and of a tool's
// run and measures until the turn is closed.
func measureCancel(ctx context.Context, s *stack, t *table, n int) error {
	if _, err := s.startWorker(ctx); err != nil {
		return err
	}
	defer s.stopWorkers()
	times := map[string][]time.Duration{}
	for i := range n {
		w := interruptions[i%len(interruptions)]
		r, err := s.interrupted(ctx, w)
		if err != nil {
			return err
		}
		at := time.Now()
		c, err := s.client.Cancel(ctx, memory.CancelRequest{ThreadID: r.ThreadID, TurnID: r.TurnID})
		took := time.Since(at)
		if err != nil {
			return err
		}
		if c.Status != string(agent.ThreadCancelled) {
			return fmt.Errorf("a cancel in a %s ended as %s: %s", w.name, c.Status, c.Note)
		}
		times[w.name] = append(times[w.name], took)
	}
	all := slices.Concat(times[interruptions[0].name], times[interruptions[1].name])
	median, p95 := t.spread(s, "cancel → the turn is closed", all, times)
	median.Bar, p95.Bar = cancelBar, cancelBar
	t.add(median)
	t.add(p95)
	return nil
}

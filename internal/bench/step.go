package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
)

const (
	stepConversation = 100_000 // bytes
	stepRatioBar     = 1.25
	stepBar          = 20 // ms, on the settings of `starter dev`
)

// pair is one run of each side, in time per step.
type pair struct{ floor, spool time.Duration }

// measureStep compares the time of a step with the floor's: floor and Spool take
// turns, and the median of the pairs' ratios counts.
func measureStep(ctx context.Context, s *stack, t *table, steps, pairs int) error {
	if _, err := s.startWorker(ctx); err != nil {
		return err
	}
	defer s.stopWorkers()
	floor, err := s.startFloor(ctx)
	if err != nil {
		return err
	}
	defer floor.stop()
	in := floorInput{URL: s.stub.url + "/v1/chat/completions", Steps: steps}
	var spools, floors []time.Duration
	var ratios []float64
	// The first pair warms both sides up, and tells the floor how large Spool's requests are.
	for i := range pairs + 1 {
		p, err := s.stepPair(ctx, &in, i)
		if err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		spools, floors = append(spools, p.spool), append(floors, p.floor)
		ratios = append(ratios, float64(p.spool)/float64(p.floor))
	}
	t.add(row{
		Server: s.kind, Figure: "time per step ÷ floor, 100 KB conversation", Value: median(ratios), Unit: "×", Bar: stepRatioBar,
		Detail: fmt.Sprintf("%d pairs of %d steps, %.2f to %.2f; floor %.1f ms", pairs, steps, quantile(ratios, 0), quantile(ratios, 1), milliseconds(median(floors))),
	})
	own := row{Server: s.kind, Figure: "time per step, 100 KB conversation", Value: milliseconds(median(spools)), Unit: "ms",
		Detail: fmt.Sprintf("%.1f to %.1f ms", milliseconds(quantile(spools, 0)), milliseconds(quantile(spools, 1)))}
	if s.kind == embedded {
		own.Bar = stepBar
	}
	t.add(own)
	return nil
}

// stepPair runs the floor and Spool once; the order changes from pair to pair.
func (s *stack) stepPair(ctx context.Context, in *floorInput, i int) (p pair, err error) {
	spoolRun := func() error {
		var asks []ask
		if p.spool, asks, err = s.spoolSteps(ctx, in.Steps); err == nil {
			in.Base = int(asks[0].Bytes)
			in.Grow = int(asks[in.Steps].Bytes-asks[0].Bytes) / in.Steps
		}
		return err
	}
	floorRun := func() error {
		in.ID = fmt.Sprintf("floor%d", i)
		p.floor, err = s.floorSteps(ctx, *in)
		return err
	}
	first, second := spoolRun, floorRun
	if i%2 == 1 {
		first, second = floorRun, spoolRun
	}
	if err := first(); err != nil {
		return p, err
	}
	return p, second()
}

func (s *stack) spoolSteps(ctx context.Context, steps int) (time.Duration, []ask, error) {
	session := s.session()
	if err := converse(ctx, s.store, session, s.work, stepConversation); err != nil {
		return 0, nil, err
	}
	s.stub.play(calls(steps, calculate))
	r, err := s.run(ctx, session)
	if err != nil {
		return 0, nil, err
	}
	asks := s.stub.asked(r.TurnID)
	took, err := perStep(asks, steps)
	return took, asks, err
}

func (s *stack) floorSteps(ctx context.Context, in floorInput) (time.Duration, error) {
	s.stub.play(calls(in.Steps, calculate))
	run, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.ID, TaskQueue: floorQueue}, floorWorkflow, in)
	if err != nil {
		return 0, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return 0, err
	}
	return perStep(s.stub.asked(in.ID), in.Steps)
}

// perStep is the time between two model calls as the model server saw them: a
// whole step of either side, without what a turn costs once.
func perStep(asks []ask, steps int) (time.Duration, error) {
	if len(asks) != steps+1 {
		return 0, fmt.Errorf("%d model calls instead of %d", len(asks), steps+1)
	}
	return asks[steps].At.Sub(asks[0].At) / time.Duration(steps), nil
}

// startFloor starts this program as the floor's worker.
func (s *stack) startFloor(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := spawn("floor", self, []string{"floor-worker", s.address, filepath.Join(s.dir, "floor.db")}, nil, s.dir, nil)
	if err != nil {
		return nil, err
	}
	err = eventually(ctx, 30*time.Second, "the floor's worker polls", func() bool {
		d, err := s.temporal.DescribeTaskQueue(ctx, floorQueue, 1)
		if err != nil {
			return false
		}
		for _, poller := range d.GetPollers() {
			if strings.HasPrefix(poller.GetIdentity(), fmt.Sprintf("%d@", p.pid())) {
				return true
			}
		}
		return false
	})
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%w\n%s", err, p.log)
	}
	return p, nil
}

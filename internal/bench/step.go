package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
)

const (
	stepConversation = 100_000 // bytes
	stepRatioBar     = 1.25
	stepBar          = 20 // ms, on the settings of `starter dev`
)

// pair is one run of each side.
type pair struct{ floor, spool timed }

// timed is the time of a step, by the clock and of the processors.
type timed struct{ took, cpu time.Duration }

// stepSides are what the two sides run on beside the server.
type stepSides struct{ floor, spool *process }

// measureStep compares the time of a step with the floor's: floor and Spool take
// turns, and the median of the pairs' ratios counts.
func measureStep(ctx context.Context, s *stack, t *table, steps, pairs int) error {
	var sides stepSides
	var err error
	if sides.spool, err = s.startWorker(ctx); err != nil {
		return err
	}
	defer s.stopWorkers()
	if sides.floor, err = s.startFloor(ctx); err != nil {
		return err
	}
	defer sides.floor.stop()
	in := floorInput{URL: s.stub.url + "/v1/chat/completions", Steps: steps}
	var spools, floors, spoolCPU, floorCPU []time.Duration
	var ratios []float64
	// The first pair warms both sides up, and tells the floor how large Spool's requests are.
	for i := range pairs + 1 {
		p, err := s.stepPair(ctx, sides, &in, i)
		if err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		spools, floors = append(spools, p.spool.took), append(floors, p.floor.took)
		spoolCPU, floorCPU = append(spoolCPU, p.spool.cpu), append(floorCPU, p.floor.cpu)
		ratios = append(ratios, float64(p.spool.took)/float64(p.floor.took))
	}
	t.add(row{
		Figure: "time per step ÷ floor, 100 KB conversation", Value: median(ratios), Unit: "×", Bar: stepRatioBar,
		Detail: fmt.Sprintf("%d pairs of %d steps, half of them %.2f to %.2f", pairs, steps, quantile(ratios, 0.25), quantile(ratios, 0.75)),
	})
	if cpu, floor := mean(spoolCPU), mean(floorCPU); floor > 0 {
		t.add(row{
			Figure: "processor time per step ÷ floor", Value: float64(cpu) / float64(floor), Unit: "×",
			Detail: fmt.Sprintf("server and worker: %.1f ms, floor %.1f ms", milliseconds(cpu), milliseconds(floor)),
		})
	}
	t.add(row{Figure: "time per step, 100 KB conversation", Value: milliseconds(median(spools)), Unit: "ms", Bar: stepBar,
		Detail: fmt.Sprintf("half of the runs %.1f to %.1f ms; floor %.1f ms", milliseconds(quantile(spools, 0.25)), milliseconds(quantile(spools, 0.75)), milliseconds(median(floors)))})
	return nil
}

// stepPair runs the floor and Spool once; the order changes from pair to pair.
func (s *stack) stepPair(ctx context.Context, sides stepSides, in *floorInput, i int) (p pair, err error) {
	spoolRun := func() error {
		var asks []ask
		if p.spool, asks, err = s.spoolSteps(ctx, sides.spool, in.Steps); err == nil {
			in.Base = int(asks[0].Bytes)
			in.Grow = int(asks[in.Steps].Bytes-asks[0].Bytes) / in.Steps
		}
		return err
	}
	floorRun := func() error {
		in.ID = fmt.Sprintf("floor%d", i)
		p.floor, err = s.floorSteps(ctx, sides.floor, *in)
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

func (s *stack) spoolSteps(ctx context.Context, worker *process, steps int) (timed, []ask, error) {
	session := spool.NewID()
	if err := converse(ctx, s.store, session, s.work, stepConversation); err != nil {
		return timed{}, nil, err
	}
	s.stub.play(calls(steps, calculate))
	before := cpuTime(s.server, worker)
	r, err := s.send(ctx, session)
	if err != nil {
		return timed{}, nil, err
	}
	// Waiting as for the floor, so that both are disturbed alike.
	if err := s.temporal.GetWorkflow(ctx, r.ThreadID, "").Get(ctx, nil); err != nil {
		return timed{}, nil, err
	}
	if err := s.finish(ctx, r); err != nil {
		return timed{}, nil, err
	}
	after := cpuTime(s.server, worker)
	asks := s.stub.asked(r.TurnID)
	took, err := perStep(asks, steps)
	return timed{took, (after - before) / time.Duration(steps)}, asks, err
}

func (s *stack) floorSteps(ctx context.Context, worker *process, in floorInput) (timed, error) {
	s.stub.play(calls(in.Steps, calculate))
	before := cpuTime(s.server, worker)
	run, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.ID, TaskQueue: floorQueue}, floorWorkflow, in)
	if err != nil {
		return timed{}, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return timed{}, err
	}
	after := cpuTime(s.server, worker)
	took, err := perStep(s.stub.asked(in.ID), in.Steps)
	return timed{took, (after - before) / time.Duration(in.Steps)}, err
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

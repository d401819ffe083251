package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/temporaltest"
)

const (
	stepConversation = 100_000 // bytes
	stepRatioBar     = 0.70
	stepBar          = 12 // ms, on the settings of `starter dev`
)

// timed is the time of something, by the clock and of the processors, and the part of
// these that was the server's, where that is measured.
type timed struct{ took, cpu, server time.Duration }

func (t timed) String() string {
	return fmt.Sprintf("%.1f s, %.1f s of processor time, %.1f of them the server's", t.took.Seconds(), t.cpu.Seconds(), t.server.Seconds())
}

// compared are pairs of runs of two sides, the second measured by the first.
type compared [2][]timed

// inTurn runs two sides in turn, each the first of every other pair, after a pair
// that warms both up and that the second begins.
func inTurn(pairs int, run func(side, pair int) timed) (c compared) {
	for i := range pairs + 1 {
		var p [2]timed
		for j := range 2 {
			side := (i + j + 1) % 2
			p[side] = run(side, i)
		}
		if i > 0 {
			c[0], c[1] = append(c[0], p[0]), append(c[1], p[1])
		}
	}
	return c
}

func (c compared) took(side int) (all []time.Duration) {
	for _, t := range c[side] {
		all = append(all, t.took)
	}
	return all
}

func (c compared) cpu(side int) (all []time.Duration) {
	for _, t := range c[side] {
		all = append(all, t.cpu)
	}
	return all
}

// ratio is the row of the median of the pairs' ratios.
func (c compared) ratio(figure string, bar float64, of string) row {
	var ratios []float64
	for i := range c[0] {
		ratios = append(ratios, float64(c[1][i].took)/float64(c[0][i].took))
	}
	return row{Figure: figure, Value: median(ratios), Unit: "×", Bar: bar,
		Detail: fmt.Sprintf("%d pairs of %s, half of them %.2f to %.2f", len(ratios), of, quantile(ratios, 0.25), quantile(ratios, 0.75))}
}

func measureStep(ctx context.Context, s *stack, t *table, pairs int) {
	worker := s.startWorker(ctx)
	defer s.stopWorkers()
	floor := s.startFloor(ctx)
	defer floor.Stop()
	in := floorInput{URL: s.stub.url + "/v1/chat/completions", Steps: steps}
	// The first run, which is Spool's, tells the floor how large the requests are.
	c := inTurn(pairs, func(side, pair int) timed {
		if side == 1 {
			return s.spoolSteps(ctx, worker, &in)
		}
		in.ID = fmt.Sprintf("floor%d", pair)
		return s.floorSteps(ctx, floor, in)
	})
	bar := stepRatioBar
	if s.kind() == "Postgres" {
		bar = 1
	}
	t.add(c.ratio("time per step ÷ floor, 100 KB conversation, "+s.kind(), bar, fmt.Sprintf("%d steps", steps)))
	if cpu, floor := mean(c.cpu(1)), mean(c.cpu(0)); floor > 0 {
		t.add(row{
			Figure: "processor time per step ÷ floor, " + s.kind(), Value: float64(cpu) / float64(floor), Unit: "×",
			Detail: fmt.Sprintf("server and worker: %.1f ms, floor %.1f ms", milliseconds(cpu), milliseconds(floor)),
		})
	}
	spools := c.took(1)
	t.add(row{Figure: "time per step, 100 KB conversation, " + s.kind(), Value: milliseconds(median(spools)), Unit: "ms", Bar: stepBar,
		Detail: fmt.Sprintf("half of the runs %.1f to %.1f ms; floor %.1f ms", milliseconds(quantile(spools, 0.25)), milliseconds(quantile(spools, 0.75)), milliseconds(median(c.took(0))))})
}

func (s *stack) spoolSteps(ctx context.Context, worker *temporaltest.Process, in *floorInput) timed {
	session := spool.NewID()
	converse(ctx, s.Store, session, s.Work, stepConversation)
	s.stub.play(calls(in.Steps, calculate))
	before := cpuTime(s.Server.Process, worker)
	r := s.send(ctx, session)
	// Waiting as for the floor, so that both are disturbed alike.
	check(s.Temporal.GetWorkflow(ctx, r.ThreadID, "").Get(ctx, nil))
	s.finish(ctx, r)
	after := cpuTime(s.Server.Process, worker)
	asks := s.stub.asked(r.TurnID)
	took := perStep(asks, in.Steps)
	in.Base, in.Grow = int(asks[0].Bytes), int(asks[in.Steps].Bytes-asks[0].Bytes)/in.Steps
	return timed{took: took, cpu: (after - before) / time.Duration(in.Steps)}
}

func (s *stack) floorSteps(ctx context.Context, worker *temporaltest.Process, in floorInput) timed {
	s.stub.play(calls(in.Steps, calculate))
	before := cpuTime(s.Server.Process, worker)
	run := must(s.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.ID, TaskQueue: floorQueue}, floorWorkflow, in))
	check(run.Get(ctx, nil))
	after := cpuTime(s.Server.Process, worker)
	return timed{took: perStep(s.stub.asked(in.ID), in.Steps), cpu: (after - before) / time.Duration(in.Steps)}
}

// perStep is the time between two model calls as the model server saw them: a
// whole step of either side, without what a turn costs once.
func perStep(asks []ask, steps int) time.Duration {
	if len(asks) != steps+1 {
		fail("%d model calls instead of %d", len(asks), steps+1)
	}
	return asks[steps].At.Sub(asks[0].At) / time.Duration(steps)
}

func (s *stack) startFloor(ctx context.Context) *temporaltest.Process {
	where := s.file("floor.db")
	if s.kind() == "Postgres" {
		where = s.StoreSpec()
	}
	p := must(temporaltest.Spawn("floor", must(os.Executable()), []string{"floor-worker", s.Server.Address, where}, nil, nil))
	s.eventually(ctx, "the floor's worker polls", p, func() bool {
		d, err := s.Temporal.DescribeTaskQueue(ctx, floorQueue, 1)
		return err == nil && slices.ContainsFunc(d.GetPollers(), func(poller *taskqueue.PollerInfo) bool {
			return strings.HasPrefix(poller.GetIdentity(), fmt.Sprintf("%d@", p.PID()))
		})
	})
	return p
}

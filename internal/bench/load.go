package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/temporaltest"
)

const (
	loadSteps = 5
	// loadRatioBar is for a hundred turns at once by the floor's, manyRatioBar for a
	// thousand by a hundred.
	loadRatioBar, manyRatioBar = 1.0, 11.0
	tailBar                    = 2.0
)

// measureLoad runs a hundred turns at once, beside as many of the floor, then a
// thousand. Each makes five calls with results of a kilobyte.
func measureLoad(ctx context.Context, s *stack, t *table, times int, long bool) {
	worker := s.startWorker(ctx)
	defer s.stopWorkers()
	floor := s.startFloor(ctx)
	defer floor.Stop()
	check(os.WriteFile(filepath.Join(s.Work, "kilobyte"), []byte(filler(1000)), 0o644))
	var turns []time.Duration
	c := inTurn(max(times/10, 1), func(side, pair int) timed {
		if side == 0 {
			return s.floorLoad(ctx, floor, pair, 100)
		}
		one, all := s.spoolLoad(ctx, worker, 100)
		turns = append(turns, one...)
		return all
	})
	kind := s.kind()
	hundred := median(c.took(1))
	r := c.ratio("100 turns at once ÷ floor, "+kind, loadRatioBar, fmt.Sprintf("100 turns of %d steps", loadSteps))
	r.Detail += fmt.Sprintf("; %.1f s, floor %.1f s; processor time of server and worker %.1f s, floor %.1f s",
		hundred.Seconds(), median(c.took(0)).Seconds(), mean(c.cpu(1)).Seconds(), mean(c.cpu(0)).Seconds())
	t.add(r)
	t.add(row{Figure: "worker's memory after 100 turns at once, " + kind, Value: peakMemory(worker), Unit: "MB", Bar: 80})
	t.add(row{Figure: "100 turns at once, p95 ÷ median, " + kind, Value: float64(quantile(turns, 0.95)) / float64(median(turns)), Unit: "×", Bar: tailBar})
	if !long {
		return
	}
	_, many := s.spoolLoad(ctx, worker, 1000)
	t.add(row{Figure: "1,000 turns at once ÷ 100, " + kind, Value: float64(many.took) / float64(hundred), Unit: "×", Bar: manyRatioBar, Detail: many.String()})
	t.add(row{Figure: "worker's memory after 1,000 turns at once, " + kind, Value: peakMemory(worker), Unit: "MB", Bar: 250})
	t.add(row{Figure: "processor time of 1,000 turns at once ÷ 100, " + kind, Value: float64(many.cpu) / float64(mean(c.cpu(1))), Unit: "×"})
	floors := s.floorLoad(ctx, floor, -1, 1000)
	t.add(row{Figure: "1,000 turns at once ÷ floor's, " + kind, Value: float64(many.took) / float64(floors.took), Unit: "×", Bar: loadRatioBar,
		Detail: fmt.Sprintf("floor %s; its 1,000 ÷ its 100 %.1f ×, of processor time %.1f ×", floors, float64(floors.took)/float64(median(c.took(0))), float64(floors.cpu)/float64(mean(c.cpu(0))))})
}

// spoolLoad runs n turns at once, sent and waited for by this process, and tells how
// long each took and all of them.
func (s *stack) spoolLoad(ctx context.Context, worker *temporaltest.Process, n int) ([]time.Duration, timed) {
	s.stub.play(calls(loadSteps, func(step int) (string, string) {
		return "file_read", fmt.Sprintf(`{"path":"kilobyte","limit":%d}`, 1000+step)
	}))
	return s.atOnce(n, worker, func(int) { s.run(ctx, spool.NewID()) })
}

func (s *stack) floorLoad(ctx context.Context, worker *temporaltest.Process, round, n int) timed {
	s.stub.play(calls(loadSteps, calculate))
	_, all := s.atOnce(n, worker, func(i int) {
		in := floorInput{ID: fmt.Sprintf("load%d-%d", round, i), URL: s.stub.url + "/v1/chat/completions", Steps: loadSteps, Base: 5000, Grow: 1200}
		// A server that is asked for a thousand at once does not answer all in time.
		check(patiently(ctx, func() error {
			run, err := s.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.ID, TaskQueue: floorQueue}, floorWorkflow, in)
			if err != nil {
				return err
			}
			return run.Get(ctx, nil)
		}))
	})
	return all
}

func (s *stack) atOnce(n int, worker *temporaltest.Process, f func(i int)) ([]time.Duration, timed) {
	before, server, begun := cpuTime(s.Server.Process, worker), cpuTime(s.Server.Process), time.Now()
	took, errs := make([]time.Duration, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			errs[i] = attempt(func() { f(i) })
			took[i] = time.Since(begun)
		})
	}
	all.Wait()
	for _, err := range errs {
		check(err)
	}
	return took, timed{took: time.Since(begun), cpu: cpuTime(s.Server.Process, worker) - before, server: cpuTime(s.Server.Process) - server}
}

func patiently(ctx context.Context, f func() error) error {
	for {
		var late *serviceerror.DeadlineExceeded
		if err := f(); ctx.Err() != nil || !errors.As(err, &late) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// peakMemory is the most memory that a process has had, in megabytes; 0 where the
// system does not tell it as Linux does.
func peakMemory(p *temporaltest.Process) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kb, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return float64(kb) / 1024
}

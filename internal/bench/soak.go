package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/internal/temporaltest"
)

const soakAtOnce = 8

// measureSoak keeps a worker busy and tells ten times what it and its files have come to.
// The first tenth warms up; what grows after it grows without end.
func measureSoak(ctx context.Context, s *stack, t *table, minutes int) {
	worker := s.startWorker(ctx)
	defer s.stopWorkers()
	s.stub.play(calls(loadSteps, calculate))
	var first, last []float64
	turns := 0
	for tenth := 1; tenth <= 10; tenth++ {
		began := time.Now()
		for time.Since(began) < time.Duration(minutes)*time.Minute/10 {
			_, _ = s.atOnce(soakAtOnce, worker, func(i int) { s.run(ctx, fmt.Sprintf("soak-%d-%d", tenth, i)) })
			turns += soakAtOnce
		}
		last = s.weigh(worker)
		if tenth == 1 {
			first = last
		}
		fmt.Fprintf(os.Stderr, "\nbench: soak %d/10: %d turns, memory %.0f MB, %.0f handles, %.0f threads, WAL %.1f MB", tenth, turns, last[0], last[1], last[2], last[3])
	}
	of := fmt.Sprintf("after %d turns in %d minutes: %%.4g, after the first tenth %%.4g", turns, minutes)
	for i, what := range []string{"memory", "handles", "threads", "write-ahead log"} {
		t.add(row{Figure: "soak: worker's " + what + ", end ÷ after a tenth", Value: last[i] / max(first[i], 1), Unit: "×", Bar: 1.3, Detail: fmt.Sprintf(of, last[i], first[i])})
	}
}

// weigh is a process's memory in megabytes, its open files and threads, and the size of
// the store's write-ahead log in megabytes.
func (s *stack) weigh(p *temporaltest.Process) []float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	of := func(name string) float64 {
		_, rest, _ := strings.Cut(string(b), name+":")
		n, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
		return float64(n)
	}
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	var wal float64
	if info, err := os.Stat(s.StorePath() + "-wal"); err == nil {
		wal = float64(info.Size()) / 1e6
	}
	return []float64{of("VmRSS") / 1024, float64(len(files)), of("Threads"), wal}
}

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// Long enough for what is to end, however slow the machine is.
const drainForLong = "SPOOL_DRAIN_TIME=5m"

// A worker that is stopped lets a tool end: its result is stored once, and another
// worker goes on with the turn.
func TestSigtermLetsAToolEnd(t *testing.T) {
	s := stack(t)
	first := s.StartWorker(drainForLong)
	r := s.Send("s1", script.Script(slow("ran", 2), "say stored"))
	tt.Eventually(t, "the tool runs", func() bool { return lines(s.File("ran")) == 1 })
	first.Signal(syscall.SIGTERM)
	s.StartWorker()
	r = s.Wait(r)
	require.Equal(t, "stored", r.Response, r.Error)
	require.Equal(t, "start\nend\n", s.File("ran"), "it ran once, to its end")
	require.Equal(t, agent.CallSuccess, callsOf(t, s, r.ThreadID)[0].Status)
	first.Ends(t, "SIGTERM, and nothing runs")
}

// So it does a model call: the answer is not asked for again.
func TestSigtermLetsAnAnswerEnd(t *testing.T) {
	s := stack(t)
	first := s.StartWorker(drainForLong)
	r := s.Send("s1", "script: slow 100ms say "+strings.Repeat("word ", 40)+"end")
	streaming(t, s, r.ThreadID)
	first.Signal(syscall.SIGTERM)
	first.Ends(t, "SIGTERM, and the answer has ended")
	s.StartWorker()
	r = s.Wait(r)
	require.True(t, strings.HasSuffix(r.Response, "word end"))
	require.Len(t, s.Model.Records(), 1)
}

// Two workers are replaced one after the other while turns run, by a build with other
// commands and a larger schema, and by the first one again. Each tool runs once and to
// its end, and no turn fails. The long form tells how much longer turns take for it.
func TestAll_RollingDeploys(t *testing.T) {
	s := stack(t)
	next := nextBuild(t)
	var workers []*tt.Process
	start := func(w *tt.Process) {
		tt.Eventually(t, "it is ready", func() bool { return strings.Contains(w.Log(), "worker ready") })
		workers = append(workers, w)
	}
	// A run that only another build can go on with does not wait for the keeper's round.
	const noRounds = "SPOOL_KEEPER_AGE=1h"
	old := func() { start(s.StartWorker(drainForLong, noRounds)) }
	newer := func() { start(s.SpawnFrom(next, drainForLong, noRounds)) }
	old()
	old()
	sessions := 0
	var talks sync.WaitGroup
	// talk begins conversations of some turns each, and stores how long the turns take.
	talk := func(at, turns int, took *[]time.Duration) {
		var mu sync.Mutex
		for range at {
			sessions++
			session := fmt.Sprint("s", sessions)
			talks.Go(func() {
				for i := range turns {
					file, began := fmt.Sprintf("ran-%s-%d", session, i), time.Now()
					r := s.Wait(s.Send(session, script.Script(slow(file, 0.5), slow(file, 0.5), slow(file, 0.5), "slow 20ms say "+strings.Repeat("word ", 20)+"end")))
					mu.Lock()
					*took = append(*took, time.Since(began))
					mu.Unlock()
					assert.True(t, strings.HasSuffix(r.Response, "word end"), r.Error)
					assert.Equal(t, strings.Repeat("start\nend\n", 3), s.File(file))
					for _, c := range callsOf(t, s, r.ThreadID) {
						assert.Equal(t, agent.CallSuccess, c.Status)
					}
				}
			})
		}
	}
	p95 := func(sorted []time.Duration) time.Duration { return sorted[len(sorted)*95/100] }
	turns, rounds := 1, [][]func(){{newer, newer, old, old}}
	if tt.Long() {
		turns, rounds = 3, append(rounds, []func(){old, old, old, old}, rounds[0], rounds[0])
	}
	for _, round := range rounds {
		var usual, took []time.Duration
		if tt.Long() { // as many at once, without deploys
			talk(4*len(round), turns, &usual)
			talks.Wait()
		}
		for _, begin := range round {
			talk(4, turns, &took)
			begin()
			workers[0].Signal(syscall.SIGTERM)
			workers[0].Ends(t, "SIGTERM")
			workers = workers[1:]
		}
		talks.Wait()
		if tt.Long() {
			slices.Sort(usual)
			slices.Sort(took)
			t.Logf("%d turns, p50 %v, p95 %v; as many while workers are replaced, p50 %v, p95 %v: %.1f times as long", len(usual), usual[len(usual)/2], p95(usual),
				took[len(took)/2], p95(took), float64(p95(took))/float64(p95(usual)))
		}
	}
	s.Verify()
}

// A second signal waits for nothing.
func TestASecondSigtermEndsAtOnce(t *testing.T) {
	s := stack(t)
	w := s.StartWorker(drainForLong)
	r := s.Send("s1", script.Script(slow("ran", 600), "say over"))
	tt.Eventually(t, "the tool runs", func() bool { return lines(s.File("ran")) == 1 })
	w.Signal(syscall.SIGTERM)
	tt.Eventually(t, "it drains", func() bool { return strings.Contains(w.Log(), "takes no more tasks") })
	select {
	case <-w.Done():
		t.Fatal("the first signal ended the worker while a tool ran")
	default:
	}
	w.Signal(syscall.SIGTERM)
	w.Ends(t, "a second SIGTERM")
	s.StartWorker()
	r = s.Wait(r)
	require.Equal(t, "over", r.Response, r.Error)
	require.Equal(t, "start\n", s.File("ran"))
}

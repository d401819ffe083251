package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
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
// its end, and no turn fails.
func TestRollingDeploys(t *testing.T) {
	s := stack(t)
	next := nextBuild(t)
	var workers []*tt.Process
	start := func(w *tt.Process) {
		tt.Eventually(t, "it is ready", func() bool { return strings.Contains(w.Log(), "worker ready") })
		workers = append(workers, w)
	}
	old := func() { start(s.StartWorker(drainForLong)) }
	newer := func() { start(s.SpawnFrom(next, drainForLong)) }
	old()
	old()
	var sent []spool.Reply
	for _, begin := range []func(){newer, newer, old, old} {
		for range 4 {
			file := fmt.Sprint("ran", len(sent))
			sent = append(sent, s.Send(fmt.Sprint("s", len(sent)), script.Script(slow(file, 0.5), slow(file, 0.5), slow(file, 0.5), "slow 20ms say "+strings.Repeat("word ", 20)+"end")))
		}
		begin()
		workers[0].Signal(syscall.SIGTERM)
		workers[0].Ends(t, "SIGTERM")
		workers = workers[1:]
	}
	for i, r := range sent {
		r = s.Wait(r)
		require.True(t, strings.HasSuffix(r.Response, "word end"), r.Error)
		require.Equal(t, strings.Repeat("start\nend\n", 3), s.File(fmt.Sprint("ran", i)))
		for _, c := range callsOf(t, s, r.ThreadID) {
			require.Equal(t, agent.CallSuccess, c.Status)
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

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// Six kills of a worker within twelve seconds end none of the eight turns that
// it runs: no one of them is to blame.
func TestKillsOfASharedWorkerEndNobody(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	var all []spool.Reply
	for i := range 8 {
		all = append(all, s.Send(fmt.Sprint("s", i), fmt.Sprintf("script: first 4s say fine %d", i)))
	}
	begun := time.Now()
	for range 6 {
		time.Sleep(1500 * time.Millisecond)
		w.Kill()
		w = s.StartWorker()
	}
	t.Logf("six kills in %s", time.Since(begun).Round(100*time.Millisecond))
	for i, r := range all {
		r = s.Wait(r)
		require.Equal(t, "completed", r.Status, r.Error)
		require.Equal(t, fmt.Sprint("fine ", i), r.Response)
	}
}

// A turn that kills its worker whenever it runs ends at the fifth, and says so.
func TestATurnThatKillsItsWorkerEnds(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	const task = "script: first 60s say never"
	r := s.Send("s1", task)
	for n := 1; n <= 5; n++ {
		tt.Eventually(t, fmt.Sprintf("the model is asked for time %d", n), func() bool { return s.Model.Asked(task, 0) == n })
		w.Kill()
		w = s.StartWorker()
	}
	r = s.Wait(r)
	require.Equal(t, "failed", r.Status)
	require.Contains(t, r.Error, "killed its worker 5 times")
	require.Equal(t, "limit", string(turns(t, s, r.ThreadID)[0].Reason))
	require.Equal(t, 5, s.Model.Asked(task, 0))
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response)
}

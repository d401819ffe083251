package llm

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// quotas is a provider with an answer for each model; each call takes a while, and an
// answer begins at once if it streams.
type quotas struct {
	takes   time.Duration
	streams bool

	mu     sync.Mutex
	answer map[string]error
	calls  map[string]int
}

func (q *quotas) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	q.mu.Lock()
	q.calls[r.Model]++
	err := q.answer[r.Model]
	q.mu.Unlock()
	if q.streams {
		onDelta(agent.Delta{Text: "so"})
	}
	select {
	case <-time.After(q.takes):
		return agent.ModelReply{}, err
	case <-ctx.Done():
		return agent.ModelReply{}, ctx.Err()
	}
}

func (q *quotas) says(model string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answer[model] = err
}

// limitedQuotas runs a test with a limited provider and a function that calls a model.
func limitedQuotas(t *testing.T, test func(q *quotas, call func(model string) *agent.ModelError)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := &quotas{answer: map[string]error{}, calls: map[string]int{}}
		m := Limited(q, Limits{})
		test(q, func(model string) *agent.ModelError {
			var e *agent.ModelError
			if _, err := m.Generate(t.Context(), agent.ModelRequest{Model: model}, func(agent.Delta) {}); !errors.As(err, &e) {
				require.NoError(t, err)
			}
			return e
		})
	})
}

const day = 99999 * time.Second

// A model that wants no call for a day, by mistake or because of a quota, is asked
// again by one call a minute, when there is one; an answer lets all pass.
func TestALongPauseIsProbed(t *testing.T) {
	limitedQuotas(t, func(q *quotas, call func(string) *agent.ModelError) {
		q.says("m1", limitedError(day))
		for n := 1; n <= 3; n++ {
			require.False(t, call("m1").NotCalled)
			told := time.Now()
			for range 3 {
				held := call("m1")
				require.True(t, held.NotCalled)
				require.Equal(t, agent.Refusal{Model: "m1", At: told, Until: told.Add(day), Probed: true}, held.HeldBy)
				require.Equal(t, time.Until(held.HeldBy.Until), held.RetryAfter)
				time.Sleep(19 * time.Second)
			}
			require.Equal(t, n, q.calls["m1"])
			time.Sleep(3 * time.Second)
		}
		q.says("m1", nil)
		began := time.Now()
		for range 5 {
			require.Nil(t, call("m1"))
		}
		require.Equal(t, began, time.Now(), "they are not spaced either")
		require.Equal(t, 8, q.calls["m1"])
	})
}

// Nobody asks in between: a pause ends by itself, too.
func TestALongPauseEnds(t *testing.T) {
	limitedQuotas(t, func(q *quotas, call func(string) *agent.ModelError) {
		q.says("m1", limitedError(11*time.Minute))
		require.False(t, call("m1").NotCalled)
		q.says("m1", nil)
		time.Sleep(11*time.Minute - time.Second)
		require.Nil(t, call("m1")) // a probe
		q.says("m1", limitedError(11*time.Minute))
		require.False(t, call("m1").NotCalled)
		q.says("m1", nil)
		time.Sleep(11 * time.Minute)
		began := time.Now()
		require.Nil(t, call("m1"))
		require.Nil(t, call("m1"))
		require.Equal(t, 250*time.Millisecond, time.Since(began), "those who waited for it go out one after another")
	})
}

// While a probe is under way, however long it takes, there is no other; one that ends
// without an answer or a refusal leaves the pause as it was.
func TestOneProbeAtATime(t *testing.T) {
	limitedQuotas(t, func(q *quotas, call func(string) *agent.ModelError) {
		q.says("m1", limitedError(day))
		require.False(t, call("m1").NotCalled)
		time.Sleep(time.Minute)
		q.takes = 3 * time.Minute
		q.says("m1", &agent.ModelError{Code: agent.ModelOverloaded, Status: 503, Retryable: true})
		var wg sync.WaitGroup
		wg.Go(func() { require.Equal(t, agent.ModelOverloaded, call("m1").Code) })
		time.Sleep(2 * time.Minute)
		require.True(t, call("m1").NotCalled)
		wg.Wait()
		require.Equal(t, 2, q.calls["m1"])
		q.says("m1", nil)
		require.Nil(t, call("m1"), "the next one is due")

		q.takes = 0
		q.says("m1", limitedError(day))
		require.False(t, call("m1").NotCalled)
		time.Sleep(time.Minute)
		q.takes, q.streams = 3*time.Minute, true
		q.says("m1", nil)
		began := time.Now()
		for range 3 {
			wg.Go(func() { require.Nil(t, call("m1")) })
			time.Sleep(time.Second)
		}
		wg.Wait()
		require.Equal(t, 3*time.Minute+2*time.Second, time.Since(began), "an answer that begins opens it")
	})
}

// A long pause is that of the model that was asked; a short one, of all.
func TestALongPauseHoldsBackItsModelOnly(t *testing.T) {
	limitedQuotas(t, func(q *quotas, call func(string) *agent.ModelError) {
		q.says("m1", limitedError(day))
		require.False(t, call("m1").NotCalled)
		require.Nil(t, call("m2"))
		require.True(t, call("m1").NotCalled, "the answer of another model does not end it")
		q.says("m2", limitedError(10*time.Minute))
		require.False(t, call("m2").NotCalled)
		time.Sleep(9 * time.Minute)
		held := call("m3")
		require.True(t, held.NotCalled)
		require.Equal(t, []any{"m2", false, time.Minute}, []any{held.HeldBy.Model, held.HeldBy.Probed, held.RetryAfter}, "obeyed in full")
		held = call("m1")
		require.Equal(t, []any{true, "m2"}, []any{held.NotCalled, held.HeldBy.Model}, "no probe in a pause of all")
		time.Sleep(time.Minute)
		q.says("m1", limitedError(5*time.Second))
		require.False(t, call("m1").NotCalled)
		held = call("m1")
		require.Equal(t, []any{false, 5 * time.Second}, []any{held.HeldBy.Probed, held.RetryAfter}, "what it says now counts")
	})
}

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

// provider answers by a function and notes when it was called.
type provider struct {
	answer func(n int) error

	mu    sync.Mutex
	calls []time.Time
}

func (p *provider) Generate(context.Context, agent.ModelRequest, func(agent.Delta)) (agent.ModelReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, time.Now())
	return agent.ModelReply{}, p.answer(len(p.calls))
}

func limitedError(after time.Duration) error {
	return &agent.ModelError{Code: agent.ModelRateLimited, Status: 429, Retryable: true, RetryAfter: after}
}

// retry calls as a caller with retries does, until success.
func retry(m agent.Model) error {
	for {
		_, err := m.Generate(context.Background(), agent.ModelRequest{}, nil)
		var e *agent.ModelError
		if !errors.As(err, &e) || !e.Retryable {
			return err
		}
		time.Sleep(max(e.RetryAfter, time.Second))
	}
}

func TestFault_A11_FiveChildrenDoNotRetryInABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: func(n int) error {
			if n <= 2 {
				return limitedError(30 * time.Second)
			}
			return nil
		}}
		m := Limited(p)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(i/2) * time.Second)
				require.NoError(t, retry(m))
			})
		}
		wg.Wait()
		require.Len(t, p.calls, 7, "three calls were held back, two were repeated")
		for i := 2; i < len(p.calls); i++ {
			require.GreaterOrEqual(t, p.calls[i].Sub(start), 30*time.Second)
			if i > 2 {
				require.GreaterOrEqual(t, p.calls[i].Sub(p.calls[i-1]), 250*time.Millisecond)
			}
		}
	})
}

func TestShortPausesAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: func(n int) error {
			if n == 1 {
				return limitedError(0)
			}
			return nil
		}}
		m := Limited(p)
		_, err := m.Generate(t.Context(), agent.ModelRequest{}, nil)
		require.Error(t, err)
		var out time.Time
		_, err = m.Generate(t.Context(), agent.ModelRequest{Calling: func() { out = time.Now() }}, nil)
		require.NoError(t, err)
		require.Equal(t, time.Second, p.calls[1].Sub(p.calls[0]), "the assumed pause")
		require.Equal(t, p.calls[1], out, "what was waited is no time of the model")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = m.Generate(ctx, agent.ModelRequest{}, nil)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A pause that people are to be told of is an error at once, with what the provider
// said, and no call.
func TestLongerPausesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: func(int) error {
			return &agent.ModelError{Code: agent.ModelOverloaded, Status: 503, Message: "too busy", Retryable: true, RetryAfter: 3 * time.Second}
		}}
		m := Limited(p)
		_, err := m.Generate(t.Context(), agent.ModelRequest{}, nil)
		require.ErrorContains(t, err, agent.ModelOverloaded)
		told := time.Now()
		for range 2 {
			_, err = m.Generate(t.Context(), agent.ModelRequest{}, nil)
			require.Equal(t, &agent.ModelError{Code: agent.ModelRateLimited, Status: 503, Message: "too busy", Retryable: true, RetryAfter: 3 * time.Second, NotCalled: true,
				HeldBy: agent.Refusal{At: told, Until: told.Add(3 * time.Second)}}, err)
		}
		require.Len(t, p.calls, 1)
	})
}

// A quota holds back its own model, for ten minutes at a time, and says the whole time
// that the provider named. A shorter pause holds back everybody.
func TestALongPauseIsOfItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		refuse := map[string]time.Duration{"m1": day}
		var calls int
		m := Limited(answers(func(r agent.ModelRequest) error {
			calls++
			if after := refuse[r.Model]; after > 0 {
				return limitedError(after)
			}
			return nil
		}))
		call := func(model string) *agent.ModelError {
			var e *agent.ModelError
			_, err := m.Generate(t.Context(), agent.ModelRequest{Model: model}, nil)
			errors.As(err, &e)
			return e
		}
		require.False(t, call("m1").NotCalled)
		said := agent.Refusal{Model: "m1", At: time.Now(), Until: time.Now().Add(day)}
		require.Nil(t, call("m2"), "no model is held back that was not asked")
		time.Sleep(10*time.Minute - 3*time.Second)
		held := call("m1")
		require.True(t, held.NotCalled)
		require.Equal(t, said, held.HeldBy)
		require.Equal(t, time.Until(said.Until), held.RetryAfter)
		require.Equal(t, 2, calls)
		time.Sleep(3 * time.Second)
		require.False(t, call("m1").NotCalled, "it still holds")
		require.True(t, call("m1").NotCalled)
		refuse = map[string]time.Duration{"m2": time.Minute}
		time.Sleep(10 * time.Minute)
		require.Nil(t, call("m1"), "it is over")
		require.False(t, call("m2").NotCalled)
		held = call("m1")
		require.Equal(t, []any{true, "m2", time.Minute}, []any{held.NotCalled, held.HeldBy.Model, held.RetryAfter})
	})
}

// answers is a model that answers by a function.
type answers func(agent.ModelRequest) error

func (f answers) Generate(_ context.Context, r agent.ModelRequest, _ func(agent.Delta)) (agent.ModelReply, error) {
	return agent.ModelReply{}, f(r)
}

func TestOtherErrorsPauseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: func(int) error { return &agent.ModelError{Code: agent.ModelOverloaded, Retryable: true} }}
		m := Limited(p)
		start := time.Now()
		for range 10 {
			_, err := m.Generate(t.Context(), agent.ModelRequest{}, nil)
			require.Error(t, err)
		}
		require.Equal(t, start, time.Now())
	})
}

func TestAFinalErrorHoldsNoOtherCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: func(n int) error {
			if n == 1 {
				return &agent.ModelError{Code: agent.ModelRateLimited, Status: 429, RetryAfter: time.Hour, Message: "quota used up"}
			}
			return nil
		}}
		m := Limited(p)
		require.Error(t, retry(m))
		began := time.Now()
		require.NoError(t, retry(m))
		require.Zero(t, time.Since(began))
	})
}

package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// What ends the repeating of a call: trying for long enough, a pause that ends after
// that. Being held back alone does not.
func TestExhausted(t *testing.T) {
	t.Parallel()
	a := &Activities{RetryFor: 15 * time.Minute}
	down := agent.ModelError{Code: agent.ModelOverloaded, Retryable: true}
	asks := func(d time.Duration) agent.ModelError {
		return agent.ModelError{Code: agent.ModelRateLimited, Retryable: true, RetryAfter: d}
	}
	held := func(pause time.Duration) agent.ModelError {
		e := asks(pause)
		e.NotCalled = true
		return e
	}
	for name, c := range map[string]struct {
		tried tried
		err   agent.ModelError
		want  bool
	}{
		"the first failure":              {tried{failures: 1, left: 15 * time.Minute}, down, false},
		"time is left":                   {tried{failures: 30, left: time.Millisecond}, down, false},
		"time is over":                   {tried{failures: 6}, down, true},
		"over, but its worker was away":  {tried{failures: 5, left: -time.Hour}, down, false},
		"a short pause, at first":        {tried{failures: 5, left: time.Second}, asks(time.Minute), false},
		"a short pause, beyond the end":  {tried{failures: 6, left: time.Second}, asks(2 * time.Second), true},
		"a short pause, before it":       {tried{failures: 6, left: time.Minute}, asks(time.Minute), false},
		"a long pause, beyond the end":   {tried{failures: 1, left: 15 * time.Minute}, asks(16 * time.Minute), true},
		"a long pause, before it":        {tried{failures: 1, left: 15 * time.Minute}, asks(14 * time.Minute), false},
		"held back":                      {tried{left: 15 * time.Minute}, held(time.Minute), false},
		"held back, after many failures": {tried{failures: 9}, held(time.Minute), false},
		"held back by a long pause":      {tried{left: 15 * time.Minute}, held(24 * time.Hour), true},
	} {
		require.Equal(t, c.want, a.exhausted(c.tried, &c.err), name)
	}
}

// No wait that is told ends after the time at which the call is given up.
func TestLaterEndsInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tried tried
		asks  time.Duration
		known bool
	}{
		{tried{failures: 1, left: time.Hour}, 0, true},
		{tried{failures: 1, left: time.Second}, 0, false}, // there will be five more
		{tried{failures: 40, left: 3 * time.Second}, 0, true},
		{tried{failures: 6, left: 10 * time.Second}, 10 * time.Second, true},
		{tried{failures: 1, left: 10 * time.Minute}, 10 * time.Minute, true},
	} {
		for range 20 {
			e := &agent.ModelError{Code: agent.ModelOverloaded, Retryable: true, RetryAfter: c.asks}
			begun := time.Now().Truncate(time.Millisecond)
			w := later(e, c.tried, "").wait
			require.Equal(t, c.known, w.GivesUpAt != nil)
			require.False(t, w.Until.Before(begun.Add(c.asks)), "not before the provider wants it")
			if c.known {
				require.False(t, w.Until.After(*w.GivesUpAt))
				require.WithinDuration(t, begun.Add(c.tried.left), *w.GivesUpAt, time.Second)
			}
			e.NotCalled = true
			require.Nil(t, later(e, c.tried, "").wait.GivesUpAt, "others decide")
		}
	}
}

// A turn that ends for its provider says what the provider wants.
func TestGivingUpSaysWhatTheProviderWants(t *testing.T) {
	t.Parallel()
	asks := &agent.ModelError{Code: agent.ModelRateLimited, Status: 429, Message: "slow down", Retryable: true, RetryAfter: 5 * time.Second}
	require.ErrorContains(t, wireModel(asks), "slow down; the provider asks to wait until ")
	said := time.Date(2026, 5, 1, 10, 30, 12, 0, time.UTC)
	held := &agent.ModelError{Code: agent.ModelRateLimited, Status: 429, Message: "slow down", Retryable: true, RetryAfter: 24 * time.Hour, NotCalled: true, Model: "m1"}
	held.At.Provider, held.HeldBy = "host", agent.Refusal{Model: "m1", At: said, Until: said.Add(held.RetryAfter)}
	require.ErrorContains(t, wireModel(held), "not asked: m1 at host said at 2026-05-01T10:30:12Z to wait until 2026-05-02T10:30:12Z: slow down. To do: retry later")
	require.NotContains(t, wireModel(held).Error()+held.Error(), "HTTP 429", "it was not asked")
}

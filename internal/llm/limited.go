// Package llm holds what all model clients share; its sub-packages are the
// clients themselves.
package llm

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/spool-agents/spool/agent"
)

// Limits are the settings of Limited. A zero field has the default named there.
type Limits struct {
	// Spacing is the time between two calls while the provider is recovering
	// from a rate limit: 250 ms.
	Spacing time.Duration
	// Recovery is how long after a pause calls are spaced: one minute.
	Recovery time.Duration
	// MaxWait is how long a call waits here at most: 2 s. A longer pause is
	// returned as a rate_limited error with the time left, so that the caller's
	// retry waits, of which people are told, instead of a busy worker slot.
	MaxWait time.Duration
	// Pause is assumed when the provider names none: 1 s, doubled with each
	// rate limit in a row, up to 30 s.
	Pause time.Duration
}

const (
	maxAssumedPause = 30 * time.Second
	// unasked is how long nobody asks a provider that wants a long pause. Then one call
	// finds out whether it still does: a header may be wrong, a quota may be raised.
	unasked = 5 * time.Minute
)

type limited struct {
	model  agent.Model
	limits Limits

	mu     sync.Mutex
	until  time.Time // no call before this,
	probe  time.Time // but for one at this time
	spaced time.Time // calls are spaced before this
	// What the provider said when it asked to wait.
	why    string
	status int
	at     agent.ModelPlace
	// refusing is since when every answer asked to wait; zero if the last did not.
	refusing time.Time
	inARow   int
	pace     *rate.Limiter
}

// Limited shares a provider's rate limit among all calls of a model: after a
// rate_limited error, or one that names a time to wait, no call goes out before
// that time has passed, and then they go out one after another instead of in a
// burst. Use one value per provider and key. Safe for concurrent use.
func Limited(model agent.Model) agent.Model { return LimitedWith(model, Limits{}) }

// LimitedWith is Limited with other settings.
func LimitedWith(model agent.Model, l Limits) agent.Model {
	l.Spacing = orDefault(l.Spacing, 250*time.Millisecond)
	l.Recovery = orDefault(l.Recovery, time.Minute)
	l.MaxWait = orDefault(l.MaxWait, agent.ShortWait)
	l.Pause = orDefault(l.Pause, time.Second)
	return &limited{model: model, limits: l, pace: rate.NewLimiter(rate.Every(l.Spacing), 1)}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Generate waits for its turn and calls the model once.
func (l *limited) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	probe, err := l.wait(ctx)
	if err != nil {
		return agent.ModelReply{}, err
	}
	if r.Calling != nil {
		r.Calling()
	}
	reply, err := l.model.Generate(ctx, r, onDelta)
	l.learn(err, probe)
	return reply, err
}

// wait blocks until the call may go out. The pause may grow meanwhile. probe says
// that the call finds out whether a long pause still holds.
func (l *limited) wait(ctx context.Context) (probe bool, err error) {
	entered := time.Now()
	for {
		now := time.Now()
		pause, spaced, probe := l.state(now)
		if pause <= 0 {
			if !spaced || probe {
				return probe, ctx.Err()
			}
			slot := l.pace.ReserveN(now, 1)
			if pause = slot.DelayFrom(now); pause <= 0 {
				return false, ctx.Err()
			}
			// The place in the queue is given up: a new 429 may move everyone.
			slot.CancelAt(now)
		}
		if left := entered.Add(l.limits.MaxWait).Sub(now); pause > left {
			return false, l.refusal(pause)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return false, ctx.Err()
		case <-t.C:
		}
	}
}

// refusal is the error of a call that was not made.
func (l *limited) refusal(pause time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &agent.ModelError{Code: agent.ModelRateLimited, Status: l.status, Message: l.why, At: l.at, Retryable: true, RetryAfter: pause, NotCalled: true}
	if !l.refusing.IsZero() {
		e.Unanswered = time.Since(l.refusing)
	}
	return e
}

func (l *limited) state(now time.Time) (pause time.Duration, spaced, probe bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause = l.until.Sub(now)
	if pause > 0 && !now.Before(l.probe) {
		l.probe = now.Add(unasked)
		return 0, false, true
	}
	return pause, now.Before(l.spaced), false
}

// learn takes the outcome of a call into account.
func (l *limited) learn(err error, probe bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e *agent.ModelError
	if !errors.As(err, &e) {
		if err == nil {
			l.inARow, l.refusing = 0, time.Time{}
			if probe {
				l.until = time.Time{}
			}
		}
		return
	}
	if !e.Retryable {
		return // a final error, such as a used-up quota, says nothing of other calls
	}
	pause := e.RetryAfter
	if pause <= 0 {
		if e.Code != agent.ModelRateLimited {
			return
		}
		pause = min(l.limits.Pause<<min(l.inARow, 10), maxAssumedPause)
		l.inARow++
	}
	l.why, l.status, l.at = e.Message, e.Status, e.At
	now := time.Now()
	if l.refusing.IsZero() {
		l.refusing = now
	}
	if until := now.Add(pause); until.After(l.until) || probe {
		l.until, l.probe = until, now.Add(unasked)
	}
	l.spaced = l.until.Add(l.limits.Recovery)
}

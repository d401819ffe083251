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
	// Obeyed is the longest pause that holds every call back, and in full: 10 min. A
	// longer one is a quota of the model that was asked, and is probed.
	Obeyed time.Duration
	// Probe is the time between two calls that find out whether a quota still holds:
	// one minute.
	Probe time.Duration
}

const maxAssumedPause = 30 * time.Second

// pause is what the provider said when it asked to wait.
type pause struct {
	until time.Time
	// since is when it first did, with no answer in between; zero = the last call was
	// answered.
	since  time.Time
	why    string
	status int
	at     agent.ModelPlace
	told   agent.Refusal
	// Of a quota: probing says that a call is out to see whether it holds, next is when
	// another one may go.
	probing bool
	next    time.Time
}

type limited struct {
	model  agent.Model
	limits Limits

	mu     sync.Mutex
	short  pause     // holds every call
	spaced time.Time // calls are spaced before this
	inARow int
	pace   *rate.Limiter
	// quotas are the long pauses, by model: what one has used up, another may have. So
	// one header holds back no model that was not asked.
	quotas map[string]*pause
}

// Limited shares a provider's rate limit among all calls of a model: after a
// rate_limited error, or one that names a time to wait, no call goes out before
// that time has passed, and then they go out one after another instead of in a
// burst. A pause beyond Limits.Obeyed holds back the calls of the model that met it
// only, and one of those goes out each Limits.Probe, if there is one, to see whether it
// still holds: a header may be wrong, a quota may be raised. What l leaves out has its
// default. Use one value per provider and key. Safe for concurrent use.
func Limited(model agent.Model, l Limits) agent.Model {
	l.Spacing = orDefault(l.Spacing, 250*time.Millisecond)
	l.Recovery = orDefault(l.Recovery, time.Minute)
	l.MaxWait = orDefault(l.MaxWait, agent.ShortWait)
	l.Pause = orDefault(l.Pause, time.Second)
	l.Obeyed = orDefault(l.Obeyed, 10*time.Minute)
	l.Probe = orDefault(l.Probe, time.Minute)
	return &limited{model: model, limits: l, quotas: map[string]*pause{}, pace: rate.NewLimiter(rate.Every(l.Spacing), 1)}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Generate waits for its turn and calls the model once.
func (l *limited) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	probe, err := l.wait(ctx, r.Model)
	if err != nil {
		return agent.ModelReply{}, err
	}
	if probe {
		defer l.probed(r.Model)
		onDelta = l.opening(r.Model, onDelta)
	}
	if r.Calling != nil {
		r.Calling()
	}
	reply, err := l.model.Generate(ctx, r, onDelta)
	l.learn(r.Model, err, probe)
	return reply, err
}

// wait blocks until the call may go out. The pause may grow meanwhile. probe says
// that the call finds out whether a quota still holds.
func (l *limited) wait(ctx context.Context, model string) (probe bool, err error) {
	entered := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return false, err // before it takes the place of a probe
		}
		now := time.Now()
		held, spaced, probe := l.state(model, now)
		left := held.until.Sub(now)
		if left <= 0 {
			if !spaced || probe {
				return probe, nil
			}
			slot := l.pace.ReserveN(now, 1)
			if left = slot.DelayFrom(now); left <= 0 {
				return false, nil
			}
			// The place in the queue is given up: a new 429 may move everyone.
			slot.CancelAt(now)
		}
		if left > entered.Add(l.limits.MaxWait).Sub(now) {
			return false, held.refusal(now, left)
		}
		t := time.NewTimer(left)
		select {
		case <-ctx.Done():
			t.Stop()
			return false, ctx.Err()
		case <-t.C:
		}
	}
}

// state is what holds a call back at a time, if its until is later, and otherwise
// whether it is spaced from others, or is a probe.
func (l *limited) state(model string, now time.Time) (held pause, spaced, probe bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	quota := l.quotas[model]
	if quota != nil && !now.Before(quota.until) {
		l.spaced = later(l.spaced, quota.until.Add(l.limits.Recovery))
		delete(l.quotas, model)
		quota = nil
	}
	switch {
	case quota != nil && (quota.probing || now.Before(quota.next)):
		return *quota, false, false
	case quota != nil && !now.Before(l.short.until):
		quota.probing, quota.next = true, now.Add(l.limits.Probe)
		return pause{}, false, true
	}
	return l.short, now.Before(l.spaced), false
}

// refusal is the error of a call that was not made, for there is so much left of p.
func (p pause) refusal(now time.Time, left time.Duration) error {
	e := &agent.ModelError{
		Code: agent.ModelRateLimited, Status: p.status, Message: p.why, At: p.at, Retryable: true,
		RetryAfter: left, NotCalled: true, HeldBy: p.told,
	}
	if !p.since.IsZero() {
		e.Unanswered = now.Sub(p.since)
	}
	return e
}

// opening ends the pause of a model as soon as a probe's answer begins: it may go on
// for minutes.
func (l *limited) opening(model string, onDelta func(agent.Delta)) func(agent.Delta) {
	var once sync.Once
	return func(d agent.Delta) {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.quotas, model)
		})
		if onDelta != nil {
			onDelta(d)
		}
	}
}

// probed ends a probe, however it ended.
func (l *limited) probed(model string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if quota := l.quotas[model]; quota != nil {
		quota.probing = false
	}
}

// learn takes the outcome of a call into account.
func (l *limited) learn(model string, err error, probe bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e *agent.ModelError
	if !errors.As(err, &e) {
		if err == nil {
			l.inARow, l.short.since = 0, time.Time{}
			if probe { // another call may have gone out before it was told to wait
				delete(l.quotas, model)
			}
		}
		return
	}
	if !e.Retryable {
		return // a final error, such as a used-up quota, says nothing of other calls
	}
	asked := e.RetryAfter
	if asked <= 0 {
		if e.Code != agent.ModelRateLimited {
			return
		}
		asked = min(l.limits.Pause<<min(l.inARow, 10), maxAssumedPause)
		l.inARow++
	}
	now := time.Now()
	if asked > l.limits.Obeyed {
		l.quota(model, now, asked, e)
		return
	}
	if probe {
		delete(l.quotas, model) // what it says now counts
	}
	l.short.say(model, now, asked, e, false)
	l.spaced = later(l.spaced, l.short.until.Add(l.limits.Recovery))
}

// quota takes a long pause into account.
func (l *limited) quota(model string, now time.Time, asked time.Duration, e *agent.ModelError) {
	quota := l.quotas[model]
	if quota == nil {
		quota = &pause{}
		l.quotas[model] = quota
	}
	if quota.probing {
		quota.until = time.Time{} // the latest counts: a quota may end earlier than was said
	}
	quota.next = now.Add(l.limits.Probe)
	quota.say(model, now, asked, e, true)
}

// say notes what the provider said. A pause that ends before the present one changes
// nothing of when that ends.
func (p *pause) say(model string, now time.Time, asked time.Duration, e *agent.ModelError, probed bool) {
	if p.since.IsZero() {
		p.since = now
	}
	if until := now.Add(asked); until.After(p.until) {
		p.until = until
		p.why, p.status, p.at = e.Message, e.Status, e.At
		p.told = agent.Refusal{Model: model, At: now, Until: until, Probed: probed}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

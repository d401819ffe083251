// Package llm holds what all model clients share; its sub-packages are the
// clients themselves.
package llm

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/spool-agents/spool/agent"
)

const (
	// spacing is the time between two calls for so long after a pause.
	spacing  = 250 * time.Millisecond
	recovery = time.Minute
	// maxWait is how long a call waits here. A longer pause is an error with the time
	// left: the caller's retry waits then, which people see, instead of a worker's slot.
	maxWait = agent.ShortWait
	// A provider that names no time is given firstPause, doubled with each refusal in a
	// row.
	firstPause = time.Second
	maxAssumed = 30 * time.Second
	// longest is how long calls are held back by one refusal: a header may be wrong.
	longest = 10 * time.Minute
)

// pause is what the provider said when it asked to wait.
type pause struct {
	until  time.Time // calls are held back before this
	why    string
	status int
	at     agent.ModelPlace
	said   agent.Refusal
}

type limited struct {
	model agent.Model

	mu     sync.Mutex
	pauses map[string]pause // by model; that of "" holds every call
	spaced time.Time        // calls are spaced before this
	inARow int
	pace   *rate.Limiter
}

// Limited shares a provider's rate limit among all calls of a model client: after a
// rate_limited error, or one that names a time to wait, no call goes out before that
// time has passed, and then they go out one after another instead of in a burst. What
// lasts for more than ten minutes is a quota: it holds back the calls of its model
// only, and after ten minutes one of those finds out whether it still holds. Use one
// value per provider and key. Safe for concurrent use.
func Limited(model agent.Model) agent.Model {
	return &limited{model: model, pauses: map[string]pause{}, pace: rate.NewLimiter(rate.Every(spacing), 1)}
}

func (l *limited) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	if err := l.wait(ctx, r.Model); err != nil {
		return agent.ModelReply{}, err
	}
	if r.Calling != nil {
		r.Calling()
	}
	reply, err := l.model.Generate(ctx, r, onDelta)
	l.learn(r.Model, err)
	return reply, err
}

// wait blocks until the call may go out. The pause may grow meanwhile.
func (l *limited) wait(ctx context.Context, model string) error {
	entered := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		held, spaced := l.state(model, now)
		left := held.until.Sub(now)
		if left <= 0 {
			if !spaced {
				return nil
			}
			slot := l.pace.ReserveN(now, 1)
			if left = slot.DelayFrom(now); left <= 0 {
				return nil
			}
			// The place in the queue is given up: a new refusal may move everyone.
			slot.CancelAt(now)
		}
		if left > entered.Add(maxWait).Sub(now) {
			return held.refusal(left)
		}
		t := time.NewTimer(left)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// state is what holds a call back at a time, if its until is later, and whether the
// call is spaced from others.
func (l *limited) state(model string, now time.Time) (held pause, spaced bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held = l.pauses[""]
	if own := l.pauses[model]; own.until.After(held.until) {
		held = own
	}
	return held, now.Before(l.spaced)
}

// refusal is the error of a call that was not made. It carries the whole time that
// the provider named.
func (p pause) refusal(left time.Duration) error {
	return &agent.ModelError{
		Code: agent.ModelRateLimited, Status: p.status, Message: p.why, At: p.at, Retryable: true,
		RetryAfter: max(left, time.Until(p.said.Until)), NotCalled: true, HeldBy: p.said,
	}
}

// learn takes the outcome of a call into account.
func (l *limited) learn(model string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e *agent.ModelError
	if !errors.As(err, &e) {
		if err == nil {
			l.inARow = 0
		}
		return
	}
	if !e.Retryable {
		return // a final error says nothing of other calls
	}
	asked := e.RetryAfter
	if asked <= 0 {
		if e.Code != agent.ModelRateLimited {
			return
		}
		asked = min(firstPause<<min(l.inARow, 10), maxAssumed)
		l.inARow++
	}
	now, of := time.Now(), ""
	if asked > longest {
		of = model
	}
	until := now.Add(min(asked, longest))
	if !until.After(l.pauses[of].until) {
		return
	}
	l.pauses[of] = pause{
		until: until, why: e.Message, status: e.Status, at: e.At,
		said: agent.Refusal{Model: model, At: now, Until: now.Add(asked)},
	}
	if end := until.Add(recovery); end.After(l.spaced) {
		l.spaced = end
	}
}

// Router passes each call to the model client of its provider, as agent.RouteModel
// finds it; one that names none goes to Default. Safe for concurrent use if its
// clients are.
type Router struct {
	Default   agent.Model
	Providers map[string]agent.Model
}

var _ agent.Model = Router{}

// Generate calls the provider's client.
func (m Router) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	at, err := agent.RouteModel(r.Model, r.Provider, m.Providers)
	if err != nil {
		failed := &agent.ModelError{Code: agent.ModelUnknown, Message: err.Error(), Model: r.Model}
		var unknown *agent.UnknownProvider
		if errors.As(err, &unknown) {
			failed.Message = unknown.What()
			failed.ToDo = unknown.ToDo() + "; models are named by SPOOL_MODEL, model and provider in the agent's file, and `starter send --model`"
		}
		return agent.ModelReply{}, failed
	}
	r.Model, r.Provider = at.Model, at.Provider
	if at.Provider == "" {
		return m.Default.Generate(ctx, r, onDelta)
	}
	return m.Providers[at.Provider].Generate(ctx, r, onDelta)
}

// Placed says in a model's errors, and with its replies, where it is asked; in a
// refusal of the key also where the key comes from, or should: origin is a sentence's
// part such as "the key is the one of OPENAI_API_KEY".
func Placed(model agent.Model, at agent.ModelPlace, origin string) agent.Model {
	return placed{model, at, origin}
}

type placed struct {
	agent.Model
	at     agent.ModelPlace
	origin string
}

func (m placed) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	reply, err := m.Model.Generate(ctx, r, onDelta)
	var e *agent.ModelError
	failed := errors.As(err, &e)
	if m.at.Provider = cmp.Or(m.at.Provider, reply.At.Provider); failed {
		m.at.Provider = cmp.Or(m.at.Provider, e.At.Provider)
	}
	if reply.At = m.at; !failed {
		return reply, err
	}
	told := *e
	told.Model, told.At = cmp.Or(e.Model, r.Model), m.at
	if e.Code == agent.ModelAuth {
		told.Message += " (" + m.origin + ")"
	}
	return reply, &told
}

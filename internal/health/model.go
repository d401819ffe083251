package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Model passes calls on and remembers how the last one ended.
type Model struct {
	agent.Model

	mu sync.Mutex
	at time.Time
	// failed is why the last call had no answer; nil if it had one.
	failed error
}

// Generate makes a call.
func (m *Model) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	reply, err := m.Model.Generate(ctx, r, onDelta)
	var me *agent.ModelError
	failed := errors.As(err, &me)
	if err != nil && !failed || failed && me.NotCalled {
		return reply, err // it was stopped, or not made
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at, m.failed = time.Now(), nil; failed && (me.Retryable || me.Code == agent.ModelAuth) {
		m.failed = err
	}
	return reply, err
}

// Part tells how the last call ended. A model that does not answer is nothing that
// another host would mend.
func (m *Model) Part() Part {
	return Part{Name: ModelPart, Optional: true, Check: func(context.Context) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.failed == nil {
			return nil
		}
		return fmt.Errorf("last call, at %s: %w", m.at.UTC().Format(time.RFC3339), m.failed)
	}}
}

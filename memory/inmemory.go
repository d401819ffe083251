package memory

import (
	"context"
	"sync"

	"github.com/spool-agents/spool/memory/internal/atomicfile"
)

// inMemory is the persistence of InMemoryMemory.
type inMemory struct {
	mu sync.RWMutex
	t  table
}

// NewInMemory makes a Persistence that keeps records in this process only.
func NewInMemory() Persistence { return &inMemory{t: table{}} }

func (m *inMemory) View(ctx context.Context, _ IDOf, f func(Records) error) error {
	if err := ctx.Err(); err != nil {
		return atomicfile.Explain(err, "memory")
	}
	m.mu.RLock()
	t := m.t
	m.mu.RUnlock()
	return f(&overlay{base: t})
}

func (m *inMemory) Update(ctx context.Context, _ IDOf, f func(Records) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return atomicfile.Explain(err, "memory")
	}
	o := &overlay{base: m.t}
	if err := f(o); err != nil {
		return err
	}
	if o.changed() {
		m.t = o.result()
	}
	return nil
}

func (m *inMemory) Close() error { return nil }

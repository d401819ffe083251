package port

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

// NewInMemory makes a MemoryPersistence that keeps records in this process only.
func NewInMemory() MemoryPersistence { return &inMemory{t: table{}} }

func (m *inMemory) View(ctx context.Context, f func(Records) error) error {
	if err := ctx.Err(); err != nil {
		return atomicfile.Explain(err, "memory")
	}
	m.mu.RLock()
	t := m.t
	m.mu.RUnlock()
	return f(&unit{base: t, readOnly: true})
}

func (m *inMemory) Update(ctx context.Context, f func(Records) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return atomicfile.Explain(err, "memory")
	}
	u := &unit{base: m.t}
	if err := f(u); err != nil {
		return err
	}
	m.t = m.t.with(u)
	return nil
}

func (m *inMemory) Close() error { return nil }

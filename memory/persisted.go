package memory

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/spool-agents/spool/agent"
)

// PersistedMemory is a MemoryPort over a Persistence: it reads nothing before its
// first access, and what it wrote is durable when the call returns.
type PersistedMemory[T any] struct {
	p  Persistence
	id func(T) string
}

// NewPersistedMemory makes a Port over p. id returns an item's id, or "" if it
// has none. Close the port, which closes p.
func NewPersistedMemory[T any](p Persistence, id func(T) string) *PersistedMemory[T] {
	return &PersistedMemory[T]{p: p, id: id}
}

// InMemoryMemory is a MemoryPort that lives in this process only: it is gone after a
// restart and writes no file.
type InMemoryMemory[T any] struct {
	PersistedMemory[T]
}

// NewInMemoryMemory makes an empty Port in memory. id returns an item's id, or
// "" if it has none.
func NewInMemoryMemory[T any](id func(T) string) *InMemoryMemory[T] {
	return &InMemoryMemory[T]{PersistedMemory[T]{p: NewInMemory(), id: id}}
}

// CreateMemory makes a Port that keeps its items if memPersist is set, in what
// open returns; otherwise one that leaves nothing on the disk, and open is not
// called.
func CreateMemory[T any](memPersist bool, open func() (Persistence, error), id func(T) string) (AtomicPort[T], error) {
	if !memPersist {
		return NewInMemoryMemory(id), nil
	}
	p, err := open()
	if err != nil {
		return nil, err
	}
	return NewPersistedMemory(p, id), nil
}

// Close releases the persistence.
func (m *PersistedMemory[T]) Close() error { return m.p.Close() }

// View runs f on the state of one moment. f may run more than once.
func (m *PersistedMemory[T]) View(ctx context.Context, f func(Batch[T]) error) error {
	return m.p.View(ctx, m.idOf, func(r Records) error { return f(&batch[T]{r: r, id: m.id, readOnly: true}) })
}

// Update runs f as one unit.
func (m *PersistedMemory[T]) Update(ctx context.Context, f func(Batch[T]) error) error {
	return m.p.Update(ctx, m.idOf, func(r Records) error { return f(&batch[T]{r: r, id: m.id}) })
}

// idOf finds the id of a stored item; one that is no T has none.
func (m *PersistedMemory[T]) idOf(body json.RawMessage) string {
	var item T
	if json.Unmarshal(body, &item) != nil {
		return ""
	}
	return m.id(item)
}

// Get returns a key's items in order.
func (m *PersistedMemory[T]) Get(ctx context.Context, key string) (items []T, err error) {
	err = m.View(ctx, func(b Batch[T]) error {
		items, err = b.Get(key)
		return err
	})
	return items, err
}

// Set replaces a key's items.
func (m *PersistedMemory[T]) Set(ctx context.Context, key string, items []T) error {
	return m.Update(ctx, func(b Batch[T]) error { return b.Set(key, items) })
}

// Append adds the items whose ids are not there yet.
func (m *PersistedMemory[T]) Append(ctx context.Context, key string, items ...T) error {
	return m.Update(ctx, func(b Batch[T]) error {
		_, err := b.Append(key, items...)
		return err
	})
}

// Delete removes a key.
func (m *PersistedMemory[T]) Delete(ctx context.Context, key string) error {
	return m.Update(ctx, func(b Batch[T]) error { return b.Delete(key) })
}

// Keys returns all keys, sorted.
func (m *PersistedMemory[T]) Keys(ctx context.Context) (keys []string, err error) {
	err = m.View(ctx, func(b Batch[T]) error {
		keys, err = b.Keys()
		return err
	})
	return keys, err
}

// Clear removes all keys.
func (m *PersistedMemory[T]) Clear(ctx context.Context) error {
	return m.Update(ctx, func(b Batch[T]) error { return b.Clear() })
}

// ExportSnapshot returns everything as it was at one moment.
func (m *PersistedMemory[T]) ExportSnapshot(ctx context.Context) (MemorySnapshot[T], error) {
	var out MemorySnapshot[T]
	err := m.View(ctx, func(b Batch[T]) error {
		out = MemorySnapshot[T]{}
		keys, err := b.Keys()
		if err != nil {
			return err
		}
		for _, key := range keys {
			if out[key], err = b.Get(key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ImportSnapshot sets every key of a snapshot in one unit.
func (m *PersistedMemory[T]) ImportSnapshot(ctx context.Context, s MemorySnapshot[T]) error {
	return m.Update(ctx, func(b Batch[T]) error {
		for key, items := range s {
			if err := b.Set(key, items); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch turns items into records and back.
type batch[T any] struct {
	r        Records
	id       func(T) string
	readOnly bool
}

func (b *batch[T]) Keys() ([]string, error) {
	keys, err := b.r.Keys()
	if keys == nil {
		keys = []string{}
	}
	return keys, err
}

func (b *batch[T]) Len(key string) (int, error) {
	if err := CheckKey(key); err != nil {
		return 0, err
	}
	return b.r.Len(key)
}

func (b *batch[T]) Get(key string) ([]T, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	records, err := b.r.Get(key)
	if err != nil {
		return nil, err
	}
	items := make([]T, len(records))
	for i, r := range records {
		if err := json.Unmarshal(r.Body, &items[i]); err != nil {
			return nil, agent.Wrap(err, agent.CodeInternal, "memory key %q: item %d does not have the expected form: export the key with the program that wrote it", key, i+1)
		}
	}
	return items, nil
}

func (b *batch[T]) Set(key string, items []T) error {
	records, err := b.encode(key, items)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, r := range records {
		if r.ID != "" && ids[r.ID] {
			return agent.Errorf(agent.CodeInvalid, "memory key %q cannot hold two items with id %q: give one another id; nothing was changed", key, r.ID)
		}
		ids[r.ID] = true
	}
	return b.r.Put(key, records)
}

func (b *batch[T]) Append(key string, items ...T) (int, error) {
	records, err := b.encode(key, items)
	if err != nil {
		return 0, err
	}
	return b.r.Append(key, records)
}

func (b *batch[T]) Delete(key string) error { return b.Set(key, nil) }

func (b *batch[T]) Clear() error {
	if b.readOnly {
		return errReadOnlyBatch
	}
	return b.r.Clear()
}

var errReadOnlyBatch = agent.Errorf(agent.CodeInvalid, "a view of memory cannot write: use Update")

func (b *batch[T]) encode(key string, items []T) ([]Record, error) {
	if b.readOnly {
		return nil, errReadOnlyBatch
	}
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	out := make([]Record, len(items))
	for i, item := range items {
		body, err := compact(item)
		if err != nil {
			return nil, agent.Wrap(err, agent.CodeInvalid, "memory key %q: item %d cannot be written as JSON; nothing was changed", key, i+1)
		}
		out[i] = Record{ID: b.id(item), Body: body}
		if len(out[i].ID) > MaxKeyLength {
			return nil, agent.Errorf(agent.CodeInvalid, "memory key %q: the id of item %d has %d bytes, at most %d are possible; nothing was changed", key, i+1, len(out[i].ID), MaxKeyLength)
		}
		if err := checkText("item id", out[i].ID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compact writes an item as one line of JSON that its readers can read.
func compact(item any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(item); err != nil {
		return nil, err
	}
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	// A json.RawMessage goes through as it is, whatever its bytes.
	return body, checkText("JSON text", string(body))
}

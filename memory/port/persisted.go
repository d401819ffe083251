package port

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
)

// PersistedMemory is a MemoryPort over a MemoryPersistence: it reads nothing before
// its first access, and what it wrote is durable when the call returns. The id of
// an item is the text in its JSON's field "id".
type PersistedMemory[T any] struct {
	p MemoryPersistence
}

// NewPersistedMemory makes a MemoryPort over p. Close the port, which closes p.
func NewPersistedMemory[T any](p MemoryPersistence) *PersistedMemory[T] {
	return &PersistedMemory[T]{p: p}
}

// InMemoryMemory is a MemoryPort that lives in this process only: it is gone after a
// restart and writes no file.
type InMemoryMemory[T any] struct {
	PersistedMemory[T]
}

// NewInMemoryMemory makes an empty MemoryPort in memory.
func NewInMemoryMemory[T any]() *InMemoryMemory[T] {
	return &InMemoryMemory[T]{PersistedMemory[T]{p: NewInMemory()}}
}

// CreateMemory makes what keeps its items if memPersist is set, in what open
// returns; otherwise what leaves nothing on the disk, and open is not called.
func CreateMemory(memPersist bool, open func() (MemoryPersistence, error)) (MemoryPersistence, error) {
	if !memPersist {
		return NewInMemory(), nil
	}
	return open()
}

// Close releases the persistence.
func (m *PersistedMemory[T]) Close() error { return m.p.Close() }

// Get returns a key's items in order.
func (m *PersistedMemory[T]) Get(ctx context.Context, key string) (items []T, err error) {
	err = m.p.View(ctx, func(r Records) error {
		items, err = get[T](r, key)
		return err
	})
	return items, err
}

// Set replaces a key's items.
func (m *PersistedMemory[T]) Set(ctx context.Context, key string, items []T) error {
	return m.p.Update(ctx, func(r Records) error { return set(r, key, items) })
}

// Append adds the items whose ids are not there yet.
func (m *PersistedMemory[T]) Append(ctx context.Context, key string, items ...T) error {
	return m.p.Update(ctx, func(r Records) error {
		_, err := add(r, key, items)
		return err
	})
}

// Delete removes a key.
func (m *PersistedMemory[T]) Delete(ctx context.Context, key string) error {
	return m.Set(ctx, key, nil)
}

// Keys returns all keys, sorted.
func (m *PersistedMemory[T]) Keys(ctx context.Context) (keys []string, err error) {
	err = m.p.View(ctx, func(r Records) error {
		keys, err = r.Keys()
		return err
	})
	return append([]string{}, keys...), err
}

// Clear removes all keys.
func (m *PersistedMemory[T]) Clear(ctx context.Context) error {
	return m.p.Update(ctx, Records.Clear)
}

// ExportSnapshot returns everything as it was at one moment.
func (m *PersistedMemory[T]) ExportSnapshot(ctx context.Context) (MemorySnapshot[T], error) {
	var out MemorySnapshot[T]
	err := m.p.View(ctx, func(r Records) error {
		return steps.Run(func() {
			out = MemorySnapshot[T]{}
			for _, key := range steps.Must(r.Keys()) {
				out[key] = steps.Must(get[T](r, key))
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ImportSnapshot sets every key of a snapshot in one unit.
func (m *PersistedMemory[T]) ImportSnapshot(ctx context.Context, s MemorySnapshot[T]) error {
	return m.p.Update(ctx, func(r Records) error {
		for key, items := range s {
			if err := set(r, key, items); err != nil {
				return err
			}
		}
		return nil
	})
}

var errReadOnly = agent.Errorf(agent.CodeInvalid, "a view of memory cannot write: use Update")

func get[T any](r Records, key string) ([]T, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	records, err := r.Get(key)
	if err != nil {
		return nil, err
	}
	items := make([]T, len(records))
	for i, one := range records {
		if err := json.Unmarshal(one.Body, &items[i]); err != nil {
			return nil, agent.Wrap(err, agent.CodeInternal, "memory key %q: item %d does not have the expected form: export the key with the program that wrote it", key, i+1)
		}
	}
	return items, nil
}

func set[T any](r Records, key string, items []T) error {
	records, err := encode(key, items)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, one := range records {
		if one.ID != "" && ids[one.ID] {
			return agent.Errorf(agent.CodeInvalid, "memory key %q cannot hold two items with id %q: give one another id; nothing was changed", key, one.ID)
		}
		ids[one.ID] = true
	}
	return r.Put(key, records)
}

// add appends items and returns how many were not there yet.
func add[T any](r Records, key string, items []T) (int, error) {
	records, err := encode(key, items)
	if err != nil {
		return 0, err
	}
	return r.Append(key, records)
}

func encode[T any](key string, items []T) ([]Record, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	out := make([]Record, len(items))
	for i, item := range items {
		body, err := compact(item)
		if err != nil {
			return nil, agent.Wrap(err, agent.CodeInvalid, "memory key %q: item %d cannot be written as JSON; nothing was changed", key, i+1)
		}
		out[i] = Record{ID: itemID(body), Body: body}
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

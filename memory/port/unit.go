package port

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory/internal/atomicfile"
)

// base is the state that a unit of work begins with. What cannot be read ends the unit
// (package steps).
type base interface {
	// keys need not be sorted.
	keys() []string
	list(key string) []Record
	len(key string) int
	// checksIDs means that whoever saves the changes looks for ids that are there
	// already, so that an append need not read its list.
	checksIDs() bool
}

// unit is one unit of work: a base, with changes on top. It is the Records of all
// persistences.
type unit struct {
	base
	changes  map[string]change
	cleared  bool
	readOnly bool
}

// change is a key's new list, or what is put behind the old one.
type change struct {
	list  []Record
	added bool
}

func (u *unit) changed() bool { return u.cleared || len(u.changes) > 0 }

// Keys implements Records.
func (u *unit) Keys() ([]string, error) {
	return steps.Get(func() []string {
		there := map[string]bool{}
		if !u.cleared {
			for _, key := range u.keys() {
				there[key] = true
			}
		}
		for key, c := range u.changes {
			if there[key] = len(c.list) > 0; !there[key] {
				delete(there, key)
			}
		}
		return slices.Sorted(maps.Keys(there))
	})
}

// Len implements Records.
func (u *unit) Len(key string) (int, error) {
	c, ok := u.changes[key]
	if ok && !c.added || u.cleared {
		return len(c.list), nil
	}
	return steps.Get(func() int { return u.len(key) + len(c.list) })
}

// Get implements Records.
func (u *unit) Get(key string) ([]Record, error) {
	c, ok := u.changes[key]
	if ok && !c.added || u.cleared {
		return c.list, nil
	}
	have, err := steps.Get(func() []Record { return u.list(key) })
	if err != nil || len(c.list) == 0 {
		return have, err
	}
	// Whoever saves the append compares what has the same id.
	added := slices.DeleteFunc(slices.Clone(c.list), func(r Record) bool {
		return r.ID != "" && slices.ContainsFunc(have, func(h Record) bool { return h.ID == r.ID })
	})
	return append(have[:len(have):len(have)], added...), nil
}

// Put implements Records.
func (u *unit) Put(key string, records []Record) error {
	if u.readOnly {
		return errReadOnly
	}
	if have, err := u.Len(key); err != nil || have+len(records) == 0 {
		return err
	}
	u.change(key, change{list: slices.Clone(records)})
	return nil
}

// Append implements Records.
func (u *unit) Append(key string, records []Record) (int, error) {
	if u.readOnly {
		return 0, errReadOnly
	}
	c := u.changes[key]
	full := u.cleared || c.list != nil && !c.added
	have := c.list
	if !full && !u.checksIDs() {
		var err error
		if have, err = u.Get(key); err != nil {
			return 0, err
		}
	}
	added, err := newRecords(key, have, records)
	if err != nil || len(added) == 0 {
		return 0, err
	}
	u.change(key, change{list: append(c.list[:len(c.list):len(c.list)], added...), added: !full})
	return len(added), nil
}

func (u *unit) change(key string, c change) {
	if u.changes == nil {
		u.changes = map[string]change{}
	}
	u.changes[key] = c
}

// Clear implements Records.
func (u *unit) Clear() error {
	if u.readOnly {
		return errReadOnly
	}
	if keys, err := u.Keys(); err != nil || len(keys) == 0 {
		return err
	}
	u.changes, u.cleared = nil, true
	return nil
}

// table is everything under its keys. A table that others can see is never
// changed: result makes its successor, whose lists may share memory with those of
// their predecessors, which are shorter and so never see what is added behind.
type table map[string][]Record

func (t table) keys() []string           { return slices.Collect(maps.Keys(t)) }
func (t table) list(key string) []Record { return t[key] }
func (t table) len(key string) int       { return len(t[key]) }
func (t table) checksIDs() bool          { return false }

// with is the table with the changes of a unit.
func (t table) with(u *unit) table {
	out := table{}
	if !u.cleared {
		maps.Copy(out, t)
	}
	for key, c := range u.changes {
		if c.added {
			c.list = append(out[key], c.list...)
		}
		if out[key] = c.list; len(c.list) == 0 {
			delete(out, key)
		}
	}
	return out
}

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

package memory

import (
	"encoding/json"
	"maps"
	"slices"
)

// table is everything under its keys. A table that others can see is never
// changed: an overlay makes its successor. Lists may share memory with those of
// their predecessors, which are shorter and so never see what is added behind.
type table map[string][]Record

// overlay is a unit of work on a table.
type overlay struct {
	base    table
	changes table // nil list = removed
	cleared bool
}

// changed reports whether the unit wrote anything.
func (o *overlay) changed() bool { return o.cleared || len(o.changes) > 0 }

// result is the table with the changes.
func (o *overlay) result() table {
	out := table{}
	if !o.cleared {
		maps.Copy(out, o.base)
	}
	for key, records := range o.changes {
		if len(records) == 0 {
			delete(out, key)
			continue
		}
		out[key] = records
	}
	return out
}

// Keys implements Records.
func (o *overlay) Keys() ([]string, error) {
	return slices.Sorted(maps.Keys(o.result())), nil
}

// Len implements Records.
func (o *overlay) Len(key string) (int, error) { return len(o.list(key)), nil }

// Get implements Records.
func (o *overlay) Get(key string) ([]Record, error) { return o.list(key), nil }

func (o *overlay) list(key string) []Record {
	if records, ok := o.changes[key]; ok {
		return records
	}
	if o.cleared {
		return nil
	}
	return o.base[key]
}

// Put implements Records.
func (o *overlay) Put(key string, records []Record) error {
	if len(records) == 0 && len(o.list(key)) == 0 {
		return nil
	}
	o.change(key, slices.Clone(records))
	return nil
}

// Append implements Records.
func (o *overlay) Append(key string, records []Record) (int, error) {
	have := o.list(key)
	wanted := map[string]json.RawMessage{}
	for _, r := range records {
		wanted[r.ID] = nil
	}
	for _, r := range have {
		if _, ok := wanted[r.ID]; ok {
			wanted[r.ID] = r.Body
		}
	}
	added, err := NewRecords(key, records, func(id string) (json.RawMessage, bool, error) {
		return wanted[id], wanted[id] != nil, nil
	})
	if err != nil || len(added) == 0 {
		return 0, err
	}
	o.change(key, append(have, added...))
	return len(added), nil
}

func (o *overlay) change(key string, records []Record) {
	if o.changes == nil {
		o.changes = table{}
	}
	o.changes[key] = records
}

// Clear implements Records.
func (o *overlay) Clear() error {
	if len(o.result()) > 0 {
		o.changes, o.cleared = nil, true
	}
	return nil
}

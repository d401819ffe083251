package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"github.com/spool-agents/spool/agent"
)

// Record is an item as it is stored: compact JSON, with its id or "".
type Record struct {
	ID   string
	Body json.RawMessage
}

// IDOf finds the id of a stored item. Persistences that do not store ids apart
// from items use it.
type IDOf func(body json.RawMessage) string

// Persistence keeps records under keys (the checklist's MemoryPersistence).
// Nothing is opened, read or made before the first View or Update. Safe for
// concurrent use.
type Persistence interface {
	// View runs f on the state of one moment. f must not write and may run more
	// than once, of which the last time counts.
	View(ctx context.Context, id IDOf, f func(Records) error) error
	// Update runs f alone among all writers of all processes. If f returns nil,
	// what it changed is durable when Update returns; else nothing is changed.
	// f may run more than once, of which the last time counts.
	Update(ctx context.Context, id IDOf, f func(Records) error) error
	// Close releases what is held. It is not used after that.
	Close() error
}

// Records are all keys inside a View or an Update. What it returns belongs to
// the persistence and is not changed; keys and ids were checked by the caller.
type Records interface {
	// Keys are sorted by their bytes; each has records.
	Keys() ([]string, error)
	Len(key string) (int, error)
	Get(key string) ([]Record, error)
	// Put replaces the records of a key; none removes it. Ids are distinct.
	Put(key string, records []Record) error
	// Append adds what NewRecords leaves of records and returns their number.
	Append(key string, records []Record) (int, error)
	Clear() error
}

// NewRecords returns which records an Append has to add: those whose id is not
// stored yet, each once. stored looks an id up. The same id with other content
// is a conflict.
func NewRecords(key string, records []Record, stored func(id string) (json.RawMessage, bool, error)) ([]Record, error) {
	var out []Record
	batch := map[string]json.RawMessage{}
	for _, r := range records {
		if r.ID == "" {
			out = append(out, r)
			continue
		}
		body, found := batch[r.ID]
		if !found {
			var err error
			if body, found, err = stored(r.ID); err != nil {
				return nil, err
			}
		}
		if !found {
			out = append(out, r)
			batch[r.ID] = r.Body
			continue
		}
		if !sameJSON(body, r.Body) {
			return nil, agent.Errorf(agent.CodeConflict, "memory key %q already holds another item with id %q: give the new one an id of its own; nothing was changed", key, r.ID)
		}
	}
	return out, nil
}

// sameJSON compares values, not their spelling.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return decodeNumbers(a, &x) == nil && decodeNumbers(b, &y) == nil && reflect.DeepEqual(x, y)
}

func decodeNumbers(data []byte, v *any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}

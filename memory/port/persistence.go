package port

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

// MemoryPersistence keeps records under keys. Nothing is read or made before the
// first View or Update. Safe for concurrent use.
type MemoryPersistence interface {
	// View runs f on the state of one moment. f must not write and may run more
	// than once, of which the last time counts.
	View(ctx context.Context, f func(Records) error) error
	// Update runs f as if it were the only writer. If f returns nil, what it
	// changed is durable when Update returns; else nothing is changed. f may run
	// more than once, of which the last time counts.
	Update(ctx context.Context, f func(Records) error) error
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
	// Append adds the records whose ids are not there yet and returns their number.
	Append(key string, records []Record) (int, error)
	Clear() error
}

// newRecords returns which records an Append has to add to those that are there:
// those whose id is not among them, each once. The same id with other content is
// a conflict.
func newRecords(key string, have, records []Record) ([]Record, error) {
	there := map[string]json.RawMessage{}
	for _, r := range records {
		there[r.ID] = nil
	}
	for _, r := range have {
		if _, wanted := there[r.ID]; wanted {
			there[r.ID] = r.Body
		}
	}
	var out []Record
	for _, r := range records {
		switch body := there[r.ID]; {
		case r.ID == "" || body == nil:
			out = append(out, r)
			there[r.ID] = r.Body
		case !sameJSON(body, r.Body):
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

func decodeNumbers(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}

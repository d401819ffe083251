// Package port shows memory by keys: lists of messages under names, with what is
// counted about them. It is a family of views. MemoryPort is what programs use,
// PersistedMemory is a MemoryPort over any MemoryPersistence, and of those there
// are three:
//
//	NewInMemory   this process only
//	NewJSONFile   one JSON file that people can read
//	NewStore      the conversations that Spool runs, of one user, in any of its stores
//
// ConversationStore and AgentSessionStore add metadata and sub-agents to any of
// them. Nothing is kept here beside the store: a conversation that Spool ran is
// read through a MemoryPort, and what is added through one is seen by its next turn.
package port

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
)

// MemoryPort is memory by keys: lists of items. Items go in and
// come out as copies. A key without items does not exist, and a key that does not
// exist is empty, not an error. Safe for concurrent use; each call is one unit,
// which happens as a whole or not at all, and may be repeated.
type MemoryPort[T any] interface {
	// Get returns a key's items in order.
	Get(ctx context.Context, key string) ([]T, error)
	// Set replaces a key's items; none removes the key. Two items with one id
	// are refused.
	Set(ctx context.Context, key string, items []T) error
	// Append adds items behind those that are there. An item whose id is there
	// already is not added again; if it differs from what is stored, nothing is
	// changed and the error has agent.CodeConflict. Items without an id are
	// always added.
	Append(ctx context.Context, key string, items ...T) error
	// Delete removes a key.
	Delete(ctx context.Context, key string) error
	// Keys returns all keys, sorted by their bytes.
	Keys(ctx context.Context) ([]string, error)
	// Clear removes all keys.
	Clear(ctx context.Context) error
	// ExportSnapshot returns everything as it was at one moment.
	ExportSnapshot(ctx context.Context) (MemorySnapshot[T], error)
	// ImportSnapshot sets every key of a snapshot. Keys that are not in it stay
	// as they are: to replace everything, Clear first.
	ImportSnapshot(ctx context.Context, s MemorySnapshot[T]) error
}

// MemorySnapshot is everything in a MemoryPort. Its JSON is {key: [item, …]}.
type MemorySnapshot[T any] map[string][]T

// MaxKeyLength bounds keys, in bytes: a thread id with a prefix fits.
const MaxKeyLength = 512

// CheckKey refuses what cannot be a key in every implementation.
func CheckKey(key string) error {
	switch {
	case key == "":
		return agent.Errorf(agent.CodeInvalid, "the memory key is empty: name one, for example %q", agent.DefaultConversation)
	case len(key) > MaxKeyLength:
		return agent.Errorf(agent.CodeInvalid, "the memory key %.40q… has %d bytes: at most %d are possible", key, len(key), MaxKeyLength)
	}
	return checkText("memory key", key)
}

// checkText refuses what databases and JSON files cannot hold as text.
func checkText(what, s string) error {
	if !utf8.ValidString(s) {
		return agent.Errorf(agent.CodeInvalid, "the %s %.80q is not valid UTF-8: convert it", what, s)
	}
	for i := range len(s) {
		if s[i] == 0 {
			return agent.Errorf(agent.CodeInvalid, "the %s %.80q contains a NUL character: remove it", what, s)
		}
	}
	return nil
}

// itemID is the id of an item that is a JSON object with a text field "id", as
// messages are; other items have none.
func itemID(item json.RawMessage) string {
	var object struct {
		ID json.RawMessage `json:"id"`
	}
	var id string
	if json.Unmarshal(item, &object) != nil || json.Unmarshal(object.ID, &id) != nil {
		return ""
	}
	return id
}

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

package port

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
)

// MemoryPort is memory by keys: lists of items. All implementations pass
// porttest.Run. Items go in and come out as copies. A key without items does
// not exist, and a key that does not exist is empty, not an error. Safe for
// concurrent use; each call is one unit, which happens as a whole or not at all,
// and may be repeated.
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

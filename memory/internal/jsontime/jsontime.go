// Package jsontime reads JSON of older programs, which wrote times as numbers
// of milliseconds.
package jsontime

import (
	"bytes"
	"encoding/json"
	"time"
)

// fields are those whose numbers are times.
var fields = map[string]bool{"timestamp": true, "createdAt": true, "updatedAt": true, "startedAt": true, "lastActiveAt": true, "at": true}

// opaque fields are not ours to change.
var opaque = map[string]bool{"content": true, "arguments": true, "args": true, "data": true, "store": true, "extra_content": true}

// Unmarshal is json.Unmarshal that also takes times in milliseconds.
func Unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var tree any
	if dec.Decode(&tree) != nil || !convert(tree) {
		return err
	}
	converted, again := json.Marshal(tree)
	if again != nil {
		return err
	}
	return json.Unmarshal(converted, v)
}

// convert replaces numbers by times in place and reports whether there were any.
func convert(tree any) bool {
	changed := false
	switch t := tree.(type) {
	case []any:
		for _, v := range t {
			changed = convert(v) || changed
		}
	case map[string]any:
		for k, v := range t {
			if n, ok := v.(json.Number); ok && fields[k] {
				if ms, err := n.Float64(); err == nil {
					t[k] = time.UnixMilli(int64(ms)).UTC().Format(time.RFC3339Nano)
					changed = true
				}
				continue
			}
			if !opaque[k] {
				changed = convert(v) || changed
			}
		}
	}
	return changed
}

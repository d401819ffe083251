package port

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"
)

// encodeTable writes {key: [item, …]}, sorted, an item a line.
func encodeTable(t table) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{")
	for i, key := range slices.Sorted(maps.Keys(t)) {
		if i > 0 {
			b.WriteString(",")
		}
		name, err := compact(key)
		if err != nil {
			return nil, err
		}
		b.WriteString("\n  ")
		b.Write(name)
		b.WriteString(": [")
		for n, r := range t[key] {
			if n > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n    ")
			b.Write(r.Body)
		}
		b.WriteString("\n  ]")
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

// decodeTable reads what encodeTable writes, however it is spaced, and nothing
// that it would have to guess about: no text behind the end, no key twice.
func decodeTable(data []byte) (table, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := expect(dec, json.Delim('{')); err != nil {
		return nil, err
	}
	t := table{}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, early(err)
		}
		key := token.(string) // in an object nothing else comes before a value
		if err := CheckKey(key); err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fmt.Errorf("it holds key %q twice", key)
		}
		seen[key] = true
		var items []json.RawMessage
		if err := dec.Decode(&items); err != nil {
			return nil, fmt.Errorf("key %q: %w", key, early(err))
		}
		for _, item := range items {
			var body bytes.Buffer
			if err := json.Compact(&body, item); err != nil {
				return nil, fmt.Errorf("key %q: %w", key, err)
			}
			t[key] = append(t[key], Record{ID: itemID(body.Bytes()), Body: body.Bytes()})
		}
	}
	if err := expect(dec, json.Delim('}')); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more text behind its end")
	}
	return t, nil
}

func expect(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return early(err)
	}
	if token != want {
		return fmt.Errorf("it is not an object of lists: found %v where %v was expected", token, want)
	}
	return nil
}

// early says that a file ends too early, which io.EOF does not.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

package config

import (
	"fmt"
	"io"
	"strings"

	"github.com/spool-agents/spool/internal/encryption"
)

// Secret is a value that is never printed, logged or marshalled in full.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value itself; use it only where it is sent.
func (s Secret) Reveal() string { return s.value }

// IsSet reports whether there is a value.
func (s Secret) IsSet() bool { return s.value != "" }

// String masks the value: nothing of short ones, the last four characters of
// long ones, which is enough to tell two keys apart.
func (s Secret) String() string {
	switch {
	case s.value == "":
		return ""
	case len(s.value) < 16:
		return "****"
	}
	return "****" + s.value[len(s.value)-4:]
}

// Format masks the value for every verb, %#v and %d included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// maskKeys shows where keys come from and their ids, and nothing of what cannot be
// read as keys.
func maskKeys(value string) string {
	keys, err := encryption.Load(value)
	inFile, readable := strings.HasPrefix(value, encryption.FilePrefix), err == nil && keys.Any()
	switch {
	case readable && inFile:
		return value + " (" + keys.String() + ")"
	case readable:
		return keys.String()
	case inFile, strings.TrimSpace(value) == "": // that it is blank is what is wrong with it
		return value
	}
	return "****"
}

// MarshalText masks the value in JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

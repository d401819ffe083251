package config

import (
	"fmt"
	"io"
	"net/url"
	"strings"
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

// MarshalText masks the value in JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MaskURL hides the password of a URL and of key=value connection strings.
func MaskURL(s string) string {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		q := u.Query()
		if q.Has("password") {
			q.Set("password", "xxxxx")
			u.RawQuery = q.Encode()
		}
		return u.Redacted()
	}
	if i := strings.Index(s, "password="); i >= 0 {
		end := strings.IndexAny(s[i:], " &")
		if end < 0 {
			return s[:i] + "password=xxxxx"
		}
		return s[:i] + "password=xxxxx" + s[i+end:]
	}
	return s
}

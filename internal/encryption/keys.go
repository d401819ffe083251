// Package encryption keeps what Spool hands to Temporal unreadable to whoever
// runs the server: arguments, results, summaries, details and failures.
//
// The first of a list of keys encrypts, all of them decrypt. What is not
// encrypted passes, so that runs which began without keys go on with them.
// Search attributes, names and ids are Temporal's own and stay plain.
package encryption

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
)

const (
	keySize = 32
	// maxFile bounds the file of keys.
	maxFile = 64 << 10
	// FilePrefix begins a value that names the file of the keys.
	FilePrefix = "file:"
	// Allowed says what keys may be.
	Allowed = "ID=KEY,… with KEY from `openssl rand -base64 32`, the first encrypts and all decrypt; or file:PATH with one ID=KEY a line"
)

// idPattern is shorter than a key in base64 is, so that a key without an id is
// never taken for an id, which may be printed.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// key is one key with the name under which payloads refer to it.
type key struct {
	id   string
	aead cipher.AEAD
}

// Keys are the keys of a process, none in its zero value. They are never printed:
// String tells their ids. Safe for concurrent use.
type Keys struct{ list []key }

// Any reports whether there is a key, that is, whether anything is encrypted.
func (k Keys) Any() bool { return len(k.list) > 0 }

// IDs are the ids of the keys, the one that encrypts first.
func (k Keys) IDs() []string {
	ids := make([]string, len(k.list))
	for i, one := range k.list {
		ids[i] = one.id
	}
	return ids
}

// String says which keys there are, without them.
func (k Keys) String() string {
	ids := k.IDs()
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return ids[0] + " encrypts"
	}
	return ids[0] + " encrypts; " + strings.Join(ids[1:], ", ") + " decrypts too"
}

// Format writes String for every verb, so that no way of printing shows a key.
func (k Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText writes String into JSON and YAML.
func (k Keys) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Load reads keys as the setting gives them: the keys themselves, or file:PATH.
// Its errors show no key.
func Load(value string) (Keys, error) {
	path, isFile := strings.CutPrefix(value, FilePrefix)
	if !isFile {
		return parse(value)
	}
	text, err := readPrivate(path)
	if err != nil {
		return Keys{}, err
	}
	keys, err := parse(text)
	if err == nil && !keys.Any() {
		err = errors.New("it holds no key")
	}
	if err != nil {
		return Keys{}, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

func readPrivate(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o027 != 0 {
		return "", fmt.Errorf("%s has mode %04o, so others may read or change it: chmod 600 it, or 640 (of a secret that is mounted: mode 0440)", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is longer than %d KB", path, maxFile>>10)
	}
	return string(text), err
}

// parse reads entries ID=KEY between commas or on lines; a line that begins with #
// is a comment. An error names entries by number, and by id only if that is one.
func parse(text string) (Keys, error) {
	var keys Keys
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for entry := range strings.SplitSeq(line, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			n++
			one, err := parseKey(entry)
			if err != nil {
				return Keys{}, fmt.Errorf("entry %d %w", n, err)
			}
			for i, other := range keys.list {
				if other.id == one.id {
					return Keys{}, fmt.Errorf("entry %d has the id of entry %d, %q", n, i+1, one.id)
				}
			}
			keys.list = append(keys.list, one)
		}
	}
	return keys, nil
}

func parseKey(entry string) (key, error) {
	id, text, ok := strings.Cut(entry, "=")
	if !ok || text == "" || strings.Trim(text, "=") == "" {
		return key{}, errors.New("is not of the form ID=KEY")
	}
	if !idPattern.MatchString(id) {
		return key{}, errors.New("has no valid id: use a letter or digit, then up to 31 of A-Z a-z 0-9 . _ -")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return key{}, fmt.Errorf("(%s) has a key that is not base64", id)
	}
	if len(raw) != keySize {
		return key{}, fmt.Errorf("(%s) has a key of %d bytes in place of %d", id, len(raw), keySize)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, fmt.Errorf("(%s): %w", id, err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, fmt.Errorf("(%s): %w", id, err)
	}
	return key{id, aead}, nil
}

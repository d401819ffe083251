package encryption_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/encryption"
)

const (
	keyA = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	keyB = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
)

func load(t *testing.T, value string) encryption.Keys {
	t.Helper()
	keys, err := encryption.Load(value)
	require.NoError(t, err)
	return keys
}

// The first of a list encrypts; a list may also have lines and comments.
func TestKeysAreRead(t *testing.T) {
	for _, text := range []string{"b=" + keyB + ",a=" + keyA, " b=" + keyB + " ,\n a=" + keyA + ",", "# made in May, for b\nb=" + keyB + "\n\na=" + keyA + "\n"} {
		assert.Equal(t, []string{"b", "a"}, load(t, text).IDs())
	}
	assert.False(t, load(t, "").Any())
}

// Errors say which entry is wrong and show nothing of a key, whatever is given
// in its place.
func TestWrongKeys(t *testing.T) {
	for value, want := range map[string]string{
		keyA:                         "entry 1 is not of the form ID=KEY",
		strings.TrimRight(keyA, "="): "entry 1 is not of the form ID=KEY",
		"=" + keyA:                   "entry 1 has no valid id",
		keyA + keyB:                  "entry 1 has no valid id",
		"a b=" + keyA:                "entry 1 has no valid id",
		"a=" + keyA[:40]:             "entry 1 (a) has a key of 30 bytes in place of 32",
		"a=" + keyA + "," + "b=no!":  "entry 2 (b) has a key that is not base64",
		"a=" + keyA + ",a=" + keyB:   `entry 2 has the id of entry 1, "a"`,
		"file:/does/not/exist":       "/does/not/exist",
		"file:" + t.TempDir():        "is not a file",
	} {
		keys, err := encryption.Load(value)
		require.Error(t, err, value)
		assert.False(t, keys.Any())
		assert.Contains(t, err.Error(), want)
		for i := 0; i+8 <= len(keyA); i++ {
			assert.NotContains(t, err.Error(), keyA[i:i+8])
			assert.NotContains(t, err.Error(), keyB[i:i+8])
		}
	}
}

// A file that others may read or change is refused, with what to do.
func TestKeyFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("a="+keyA+"\n"), 0o600))
	for mode, ok := range map[os.FileMode]bool{0o400: true, 0o600: true, 0o440: true, 0o640: true, 0o644: false, 0o660: false, 0o604: false} {
		require.NoError(t, os.Chmod(path, mode))
		keys, err := encryption.Load("file:" + path)
		if assert.Equal(t, ok, err == nil, "%o: %v", mode, err); ok {
			assert.Equal(t, []string{"a"}, keys.IDs())
		} else {
			assert.Contains(t, err.Error(), "chmod 600")
		}
	}
	require.NoError(t, os.WriteFile(path, []byte("# nothing\n"), 0o600))
	require.NoError(t, os.Chmod(path, 0o600))
	_, err := encryption.Load("file:" + path)
	assert.ErrorContains(t, err, "holds no key")
}

func TestKeysAreNeverPrinted(t *testing.T) {
	keys := load(t, "b="+keyB+",a="+keyA)
	js, err := json.Marshal(keys)
	require.NoError(t, err)
	for _, text := range []string{fmt.Sprint(keys), fmt.Sprintf("%v %+v %#v %d %x %s", keys, keys, keys, keys, keys, keys), fmt.Sprintf("%+v", struct{ K encryption.Keys }{keys}), string(js)} {
		assert.NotContains(t, text, "0123456789abcdef")
		assert.NotContains(t, text, "30313233")
		assert.NotContains(t, text, "48 49 50")
		assert.NotContains(t, text, keyA[:8])
	}
	assert.Equal(t, "b encrypts; a decrypts too", keys.String())
}

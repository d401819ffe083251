package tool_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An edit keeps whose a file is, its mode and its attributes, or says what it did not keep.
func TestCase_E08_EditsKeepWhoseAFileIs(t *testing.T) {
	r, dir := files(t)
	for _, change := range []m{{"tool": "file_edit", "old": "one", "new": "two"}, {"tool": "file_write", "content": "two\n"}} {
		path := put(t, dir, "f.sh", "one\n")
		other := os.Getuid()
		if other == 0 {
			other = 12345
			require.NoError(t, os.Chown(path, other, 23456))
		}
		require.NoError(t, os.Chmod(path, 0o751|fs.ModeSetgid))
		attributes := unix.Setxattr(path, "user.origin", []byte("https://example.org"), 0) == nil
		name := change["tool"].(string)
		args := m{"path": "f.sh"}
		for k, v := range change {
			if k != "tool" {
				args[k] = v
			}
		}
		assert.Regexp(t, `(line 1|f\.sh)\.$`, succeeded(t, call(t, r, dir, name, args)), "there is nothing to say")
		assert.Equal(t, "two\n", content(t, path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, 0o751|fs.ModeSetgid, info.Mode())
		assert.EqualValues(t, other, info.Sys().(*syscall.Stat_t).Uid)
		value := make([]byte, 100)
		n, err := unix.Getxattr(path, "user.origin", value)
		assert.Equal(t, attributes, err == nil && string(value[:max(n, 0)]) == "https://example.org", name)
		require.NoError(t, os.Remove(path))
	}
	path := put(t, dir, "linked", "one\n")
	require.NoError(t, os.Link(path, filepath.Join(dir, "also")))
	assert.Contains(t, succeeded(t, call(t, r, dir, "file_edit", m{"path": "linked", "old": "one", "new": "two"})), "The file had 2 names (hard links); the others keep the old content.")
	assert.Equal(t, "one\n", content(t, filepath.Join(dir, "also")))
}

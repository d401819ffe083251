package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What this process was started with open, commands do not get.
func TestDescriptorsAreNotInherited(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("hush"), 0o600))
	fd, err := unix.Open(secret, unix.O_RDONLY, 0) // as a shell opens it: without O_CLOEXEC
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	read := func() (string, error) {
		out, err := exec.Command("cat", "/proc/self/fd/"+strconv.Itoa(fd)).Output()
		return string(out), err
	}
	out, err := read()
	require.NoError(t, err, "else this test shows nothing")
	require.Equal(t, "hush", out)
	HideEnvironment()
	out, err = read()
	require.Error(t, err)
	require.Empty(t, out)
}

package web

import (
	"io/fs"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The pure modules have tests of their own.
func TestModules(t *testing.T) {
	cmd := exec.Command("node", "--test", "test/")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "node --test (Debian's nodejs, `make deps`):\n%s", out)
	require.Contains(t, string(out), "# fail 0")
}

// The page loads nothing from elsewhere and runs no text as code.
func TestNothingFromElsewhere(t *testing.T) {
	err := fs.WalkDir(Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "/vendor/") {
			return err
		}
		raw, err := fs.ReadFile(Files, name)
		require.NoError(t, err)
		text := string(raw)
		for _, bad := range []string{"https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "dangerouslySet"} {
			require.NotContains(t, text, bad, name)
		}
		if path.Ext(name) != ".svg" {
			require.NotContains(t, text, "http://", name)
		}
		return nil
	})
	require.NoError(t, err)
}

package web

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/terminal"
)

// The pure modules have tests of their own.
func TestModules(t *testing.T) {
	cmd := exec.Command("node", "--test", "test/")
	cmd.Env = append(os.Environ(), "UNSEEN="+unseen())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "node --test (Debian's nodejs, `make deps`):\n%s", out)
	require.Contains(t, string(out), "# fail 0")
}

// unseen are the characters that a terminal does not show, as ranges. Those without a
// meaning are left out: Go and JavaScript know different versions of Unicode.
func unseen() string {
	var out strings.Builder
	last := rune(-2)
	for r := range rune(unicode.MaxRune + 1) {
		if !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Z, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && r != '\u2800' || terminal.Visible(string(r)) == string(r) {
			continue
		}
		if r != last+1 {
			fmt.Fprintf(&out, "-%x %x", max(last, 0), r)
		}
		last = r
	}
	return strings.TrimPrefix(out.String(), "-0 ") + fmt.Sprintf("-%x", last)
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

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// edit replaces one piece of a source file, named from the repository's root or /; with
// nothing to replace, it makes the file.
type edit struct{ File, Old, New string }

var (
	variants   sync.Map // by name: *sync.Mutex
	variantDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "spool-variants-") })
)

// buildVariant builds a worker from this tree with edits: another build, as a
// deploy brings it. A name is built once.
func buildVariant(t testing.TB, name string, edits ...edit) string {
	t.Helper()
	one, _ := variants.LoadOrStore(name, &sync.Mutex{})
	one.(*sync.Mutex).Lock()
	defer one.(*sync.Mutex).Unlock()
	variants, err := variantDir()
	require.NoError(t, err)
	out := filepath.Join(variants, "worker-"+name)
	if _, err := os.Stat(out); err == nil {
		return out
	}
	dir := t.TempDir()
	sources := map[string]string{}
	for _, e := range edits {
		path := e.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(tt.Root(), path)
		}
		text, ok := sources[path]
		if !ok && e.Old != "" {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			text = string(raw)
		}
		if e.Old != "" {
			require.Equal(t, 1, strings.Count(text, e.Old), "%s does not have this once, so it cannot be edited: %s", e.File, e.Old)
		}
		sources[path] = strings.Replace(text, e.Old, e.New, 1)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range sources {
		file := filepath.Join(dir, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(path)))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		overlay.Replace[path] = file
	}
	raw, err := json.Marshal(overlay)
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, raw, 0o644))
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-buildvcs=false", "-overlay", file, "-o", out, "./worker")
	cmd.Dir = tt.Root()
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "build worker %s: %s", name, said)
	return out
}

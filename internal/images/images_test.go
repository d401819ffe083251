package images

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	png := append([]byte("\x89PNG\r\n\x1a\n"), 1, 2, 3)
	var wg sync.WaitGroup
	names := make([]string, 8)
	for i := range names {
		wg.Go(func() { names[i], _ = Keep(dir, png) })
	}
	wg.Wait()
	for _, name := range names {
		require.Equal(t, names[0], name)
	}
	require.True(t, agent.CheckImageName(names[0]))
	require.Equal(t, "image/png", Kind(names[0]))
	kept, err := os.ReadFile(filepath.Join(dir, names[0]))
	require.NoError(t, err)
	require.Equal(t, png, kept)
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 1, "nothing else is left")

	for what, data := range map[string][]byte{"no image": []byte("<svg onload=x>"), "nothing": nil, "too big": append(png, bytes.Repeat([]byte{0}, Most)...)} {
		_, err := Keep(dir, data)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), what)
	}
	require.Equal(t, "", Kind("x.svg"))
}

package images

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sqlite"
)

// Images are in the store; those of before are in a folder, which is only read.
func TestFinder(t *testing.T) {
	s, err := sqlite.OpenMemory(t.Context(), sqlite.Options{})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	f := Finder{Store: s, Dir: t.TempDir()}
	kept, err := s.KeepImage(t.Context(), memorytest.Picture(1))
	require.NoError(t, err)
	old, err := agent.ImageName(memorytest.Picture(2))
	require.NoError(t, err)
	changed, err := agent.ImageName(memorytest.Picture(3))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, old), memorytest.Picture(2), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, changed), memorytest.Picture(4), 0o600))
	for name, want := range map[string][]byte{kept: memorytest.Picture(1), old: memorytest.Picture(2)} {
		data, err := f.Image(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, data)
	}
	for _, f := range []Finder{f, {Store: s}} {
		for _, name := range []string{changed, "../" + old, "/etc/passwd", ""} {
			_, err := f.Image(t.Context(), name)
			require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), name)
		}
	}
	_, err = Finder{Store: s}.Image(t.Context(), old)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

// What tools return is kept whatever it is, under an ending that nothing runs.
func TestKeepFile(t *testing.T) {
	dir := t.TempDir()
	for kind, ending := range map[string]string{"audio/wav": ".wav", "Audio/MPEG; rate=8": ".mp3", "application/pdf": ".pdf", "application/x-sh": ".bin", "text/html": ".bin", "": ".bin", "../../x": ".bin"} {
		name, err := KeepFile(dir, kind, []byte("data"))
		require.NoError(t, err)
		require.Equal(t, ending, filepath.Ext(name), kind)
		require.FileExists(t, filepath.Join(dir, name))
	}
}

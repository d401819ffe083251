package images

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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

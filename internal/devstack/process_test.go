package devstack

import (
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The last words of a process that was killed are not why it ended.
func TestHowAProcessEnded(t *testing.T) {
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	for script, want := range map[string]string{
		"echo no such thing >&2; exit 3": "exit status 3: no such thing",
		"echo warned >&2; kill -9 $$":    "signal: killed",
		"echo level=INFO ready >&2":      "ended",
	} {
		p, err := start(command{name: "part", path: sh, args: []string{"-c", script}, log: io.Discard})
		require.NoError(t, err)
		<-p.done
		assert.Equal(t, want, p.ending())
	}
}

package activities

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

func TestPlaceOfAWebUser(t *testing.T) {
	work, elsewhere := t.TempDir(), t.TempDir()
	a := &Activities{Workspace: work}
	place := func(user, folder string) (string, error) { return a.place(agent.Thread{UserID: user, Workdir: folder}) }
	for folder, want := range map[string]string{
		elsewhere + "/web-users/eve":  "web-users/eve",
		work + "/web-users/eve/new":   "web-users/eve/new",
		"/old/web-users/eve/../eve/x": "web-users/eve/x",
		elsewhere + "/web-users/bob":  "", // not eve's: as for all who send from elsewhere
		work:                          "",
	} {
		got, err := place("eve", folder)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(work, want), got, folder)
		require.DirExists(t, got)
	}

	own := filepath.Join(work, "web-users", "eve")
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(own, "out")))
	require.NoError(t, os.WriteFile(filepath.Join(own, "file"), nil, 0o600))
	for _, sub := range []string{"out", "out/deeper", "file", "file/below"} {
		got, err := place("eve", filepath.Join(own, sub))
		require.NoError(t, err)
		require.Equal(t, own, got, sub)
	}
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(work, "web-users", "mal")))
	require.NoError(t, os.Symlink("..", filepath.Join(work, "web-users", "bob")))
	for _, user := range []string{"mal", "bob"} {
		_, err := place(user, filepath.Join(work, "web-users", user))
		require.ErrorContains(t, err, "has no folder in", user)
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	}
}

package replay_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/replay"
)

func TestFilesSaysWhatIsNoHistory(t *testing.T) {
	dir := t.TempDir()
	empty, other := filepath.Join(dir, "empty.json"), filepath.Join(dir, "sub", "other.json")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Dir(other), 0o700))
	require.NoError(t, os.WriteFile(other, []byte(`{"events":[]}`), 0o600))
	for path, want := range map[string]string{
		filepath.Join(dir, "missing.json"): "there is no history", t.TempDir(): "there is no history to replay", empty: "is no history", filepath.Dir(other): "is no history",
	} {
		err := replay.Files(replay.Options{}, path)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), path)
		require.ErrorContains(t, err, want)
	}
	history, err := filepath.Glob("../workflows/testdata/histories/encrypted.*.json")
	require.NoError(t, err)
	require.NotEmpty(t, history)
	require.ErrorContains(t, replay.Files(replay.Options{}, history...), "key", "an encrypted history needs its keys")
	require.ErrorContains(t, replay.Files(replay.Options{EncryptionKeys: "nonsense"}, history...), "the keys of the histories")
}

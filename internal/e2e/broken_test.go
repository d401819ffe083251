package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// A models.yaml that cannot be used stops each program that would use it: it says
// where, what is wrong and what to do.
func TestABrokenTableOfModelsStopsItsUsers(t *testing.T) {
	s := stack(t)
	table := filepath.Join(s.Dir, "models.yaml")
	require.NoError(t, os.WriteFile(table, []byte("models:\n  - {match: x, windw: 5}\n"), 0o600))
	for _, c := range []struct {
		program string
		args    []string
		code    int
	}{
		{tt.Worker(), nil, 2},
		{tt.Starter(), []string{"dev", "--temporal", s.Server.Address, "--web-port", "0"}, 2},
		{tt.Starter(), []string{"send", "--store", "file:" + t.TempDir(), "hi"}, 2},
		{tt.Starter(), []string{"chat", "--store", "memory:"}, 2},
		{tt.Starter(), []string{"models"}, 1},
		{tt.Starter(), []string{"doctor"}, 1},
	} {
		cmd := exec.Command(c.program, c.args...)
		cmd.Env = append(cmd.Environ(), s.Env...)
		said, err := cmd.CombinedOutput()
		what := filepath.Base(c.program) + " " + strings.Join(c.args, " ")
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%s: %v: %s", what, err, said)
		for _, part := range []string{table + ":2: no table of models: ", "windw", "mend"} {
			require.Contains(t, string(said), part, what)
		}
	}
	// A message is safe meanwhile, and answered once the file is mended.
	out := says(t, s, 5, "send", "-s", s.Session("s1"), "--detach", "script: say mended")
	require.Contains(t, out, "saved, but not running: no worker polls the task queue")
	require.NoError(t, os.Remove(table))
	s.StartWorker()
	require.Equal(t, "mended", s.Ask("s1", "script: say mended").Response)
}

// A namespace that the server does not have is named by whatever needs it, with what
// makes it.
func TestAMissingNamespaceIsNamed(t *testing.T) {
	s := begin(t)
	s.Ask("s1", "script: say hi")
	out := says(t, s, 1, "doctor", "--temporal-namespace", "nowhere")
	for _, part := range []string{"the server has no namespace nowhere", "TEMPORAL_NAMESPACE, flag --temporal-namespace", "temporal operator namespace create nowhere"} {
		require.Contains(t, out, part)
	}
	out = says(t, s, 5, "send", "-s", s.Session("s2"), "--temporal-namespace", "nowhere", "script: say later")
	const why = "the Temporal server has no namespace nowhere: name another one (TEMPORAL_NAMESPACE), or make it with `temporal operator namespace create nowhere`"
	require.Contains(t, out, "saved, but not running: "+why+"; it runs when")
	w := s.SpawnWorker("TEMPORAL_NAMESPACE=nowhere")
	w.Ends(t, "a missing namespace")
	require.Contains(t, w.Log(), "worker: "+why)
	says(t, s, 0, "doctor")
}

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/httplog"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// Row 40: one line per call to a model, streamed and failed ones included, in the
// folder of the session and profile; keys are masked. Off, there is no file.
func TestRow40_HTTPLog(t *testing.T) {
	t.Parallel()
	const secret = "sk-0123456789abcdef-quite-secret"
	s := tt.New(t)
	off := s.StartWorker()
	quiet := s.Ask("off", "script: say nothing is logged")
	require.Equal(t, "completed", quiet.Status, quiet.Error)
	require.NoDirExists(t, filepath.Join(s.Dir, "profiles"))
	off.Kill()
	s.StartWorker("SPOOL_HTTP_LOG=true", "OPENAI_API_KEY="+secret)

	ok := s.Ask("on", script.Script(add(1, 2), script.Task("general", "script: say from below"), "fail 503 x1 say my key is "+secret))
	require.Equal(t, "completed", ok.Status, ok.Error)
	bad := s.Ask("on", "script: fail 401 x1 say never")
	require.Equal(t, "failed", bad.Status)
	dir, err := sessionfile.ProfileDir(s.Dir, "default")
	require.NoError(t, err)
	path, err := sessionfile.Folder{Dir: dir}.HTTPLog(s.Session("on"))
	require.NoError(t, err)
	var entries []httplog.Entry
	tt.Eventually(t, "every call has its line", func() bool {
		var lost int
		entries, lost, err = httplog.Read(path)
		require.NoError(t, err)
		require.Zero(t, lost)
		return len(entries) == 6 // two rounds, a sub-agent, 503, its repetition, 401
	})
	statuses := map[int]int{}
	threads := map[string]bool{}
	for _, e := range entries {
		statuses[e.Status]++
		threads[e.ThreadID] = true
		require.True(t, e.Streamed)
		require.NotEmpty(t, e.TurnID)
		require.Contains(t, e.URL, "/chat/completions")
		require.Contains(t, string(e.Request), `"messages"`)
		require.Equal(t, []string{"***"}, e.RequestHeaders["Authorization"])
		if e.Status == 200 {
			require.Contains(t, string(e.Response), "chat.completion.chunk")
		}
	}
	require.Equal(t, map[int]int{200: 4, 503: 1, 401: 1}, statuses)
	require.Len(t, threads, 2, "the sub-agent's calls are in its session's log")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(raw), secret)
	require.Equal(t, len(entries), strings.Count(string(raw), "\n"))
}

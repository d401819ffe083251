//go:build npm

package httpapi_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/npmtest"
)

// OpenAI's own client, from the npm registry, works against a server: models,
// conversations, streams, repeated requests, questions, errors.
func TestTheOpenAIClientWorks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.asks()
	b.StartWorker()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(npmtest.Install(t, os.DirFS("testdata/openai")), "node_modules"), filepath.Join(dir, "node_modules")))
	program, err := os.ReadFile("testdata/openai/client.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client.mjs"), program, 0o600))
	session := b.Session("oa")
	cmd := exec.CommandContext(t.Context(), "node", "client.mjs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BASE_URL="+b.url+"/v1", "TOKEN="+token, "SESSION="+session)
	var errout strings.Builder
	cmd.Stderr = &errout
	out, err := cmd.Output()
	require.NoError(t, err, errout.String())
	var seen struct {
		Models               []string
		Model, First, Finish string
		Usage                bool
		Second               string
		Streamed             map[string]any
		Once                 []any
		Again, WholeThread   string
		Late                 string
		Fitting              map[string]any
		Question, Answered   string
		Errors               map[string][]any
	}
	require.NoError(t, json.Unmarshal(out, &seen), "%s", out)
	require.Equal(t, []string{"orchestrator", "general", "researcher"}, seen.Models)
	require.Equal(t, "general", seen.Model)
	require.Contains(t, seen.First, "42")
	require.Equal(t, "stop", seen.Finish)
	require.True(t, seen.Usage)
	require.Equal(t, "second", seen.Second)
	require.Equal(t, map[string]any{"text": "one two three four five six seven eight nine ten", "many": true, "usage": true, "finish": "stop"}, seen.Streamed)
	require.Equal(t, []any{"once", "once", true, true}, seen.Once)
	require.Equal(t, "at last", seen.Late)
	require.Equal(t, "once", seen.Again)
	require.Equal(t, map[string]any{"n": 42.0}, seen.Fitting)
	require.Equal(t, "Which one?", seen.Question)
	require.Contains(t, seen.Answered, "the blue one")
	require.Equal(t, map[string][]any{
		"model":    {"NotFoundError", 404.0, "model_not_found"},
		"tools":    {"BadRequestError", 400.0, "invalid"},
		"token":    {"AuthenticationError", 401.0, "unauthorized"},
		"approval": {"ConflictError", 409.0, "waiting_for_approval"},
		"streamed": {"APIError", nil, "waiting_for_approval"},
	}, seen.Errors)

	texts := func(thread string) (out []string) {
		m, err := b.Store.Messages(b.Ctx(), thread, 0, 0)
		require.NoError(t, err)
		for _, x := range m {
			if x.Role == agent.RoleUser {
				out = append(out, x.Content.String())
			}
		}
		return out
	}
	require.Len(t, texts(session+"/default"), 3, "each message once, and no history twice")
	whole := texts(seen.WholeThread)
	require.Len(t, whole, 1)
	for _, part := range []string{"system:\nBe brief.", "user:\nearlier", "assistant:\n" + seen.First, "And now?"} {
		require.Contains(t, whole[0], part)
	}
	require.Empty(t, b.File("gated"), "what waits for approval has not run")
	gated, err := b.Store.TurnsOf(b.Ctx(), session+"/gated")
	require.NoError(t, err)
	require.Len(t, gated, 1, "the client did not send it again")
}

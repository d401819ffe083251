//go:build npm

package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/npmtest"
	"github.com/spool-agents/spool/memory/memorytest"
)

// runs runs a program of testdata/openai with the packages that are pinned there.
func (b *bench) runs(program, session string) []byte {
	b.t.Helper()
	dir := b.t.TempDir()
	require.NoError(b.t, os.Symlink(filepath.Join(npmtest.Install(b.t, os.DirFS("testdata/openai")), "node_modules"), filepath.Join(dir, "node_modules")))
	text, err := os.ReadFile(filepath.Join("testdata/openai", program))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, program), text, 0o600))
	cmd := exec.CommandContext(b.t.Context(), "node", program)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BASE_URL="+b.url+"/v1", "TOKEN="+token, "SESSION="+session,
		"IMAGE="+base64.StdEncoding.EncodeToString(memorytest.Picture(1)), "AI_SDK_LOG_WARNINGS=false", "LANGSMITH_TRACING=false")
	var errout strings.Builder
	cmd.Stderr = &errout
	out, err := cmd.Output()
	require.NoError(b.t, err, errout.String())
	return out
}

// OpenAI's own client, from the npm registry, works against a server: models,
// conversations, streams, repeated requests, questions, errors.
func TestTheOpenAIClientWorks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.asks()
	b.StartWorker()
	session := b.Session("oa")
	out := b.runs("client.mjs", session)
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

// The AI SDK's OpenAI provider works: its system messages, histories of parts, streams,
// images as bytes, objects.
func TestTheAISDKFromNPM(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	var seen struct {
		First, Second, Thread string
		Same, Usage           bool
		Look                  []string
		Object, Free          map[string]any
		Errors                map[string][]any
	}
	out := b.runs("aisdk.mjs", b.Session("ai"))
	require.NoError(t, json.Unmarshal(out, &seen), "%s", out)
	require.Contains(t, seen.First, "scripted demo model")
	require.Equal(t, "one two three", seen.Second)
	require.True(t, seen.Same, "the second turn is in the same conversation")
	require.True(t, seen.Usage)
	heard := b.heard(seen.Thread)
	require.Len(t, heard, 2)
	require.Contains(t, heard[0], "system:\nBe brief.")
	require.Equal(t, "script: slow 10ms say one two three", heard[1])
	require.Equal(t, "seen", seen.Look[0])
	m, err := b.Store.Messages(b.Ctx(), seen.Look[1], 0, 1)
	require.NoError(t, err)
	require.Len(t, m[0].Content.Images(), 1)
	require.Equal(t, map[string]any{"n": 42.0}, seen.Object)
	require.Equal(t, map[string]any{"any": 1.0}, seen.Free)
	require.Equal(t, map[string][]any{"tools": {400.0, "tools", "invalid"}, "failed": {500.0, nil, "error"}}, seen.Errors)
	b.Verify()
}

// LangChain's OpenAI model works, as the AI SDK does.
func TestLangChainFromNPM(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	var seen struct {
		First, Second, Look string
		Usage               bool
		Object, Free        map[string]any
		Errors              map[string][]any
	}
	session := b.Session("lc")
	out := b.runs("langchain.mjs", session)
	require.NoError(t, json.Unmarshal(out, &seen), "%s", out)
	require.Contains(t, seen.First, "scripted demo model")
	require.True(t, seen.Usage)
	require.Equal(t, "one two three", seen.Second)
	heard := b.heard(session + "/default")
	require.Len(t, heard, 2)
	require.Contains(t, heard[0], "system:\nBe brief.")
	require.Equal(t, "script: slow 10ms say one two three", heard[1])
	require.Equal(t, "seen", seen.Look)
	require.Equal(t, map[string]any{"n": 42.0}, seen.Object)
	require.Equal(t, map[string]any{"n": 1.0}, seen.Free)
	require.Equal(t, map[string][]any{"tools": {400.0, "tools", "invalid"}, "failed": {500.0, nil, "error"}}, seen.Errors)
	b.Verify()
}

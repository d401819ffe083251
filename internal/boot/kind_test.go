package boot

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
)

// Workers of a queue tell what they answer with, and who differs is named.
func TestWorkersTellWhatTheyAnswerWith(t *testing.T) {
	env := func(string) string { return "" }
	cfg := config.Config{Model: "m@20240620", Workspace: t.TempDir(), Home: t.TempDir(), OpenAIBaseURL: "https://user:secret@models.example:8443/v1?key=secret"}
	one := Identity(cfg, env)
	require.NotContains(t, one, "secret")
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Contains(t, one, fmt.Sprintf("%d@%s@", os.Getpid(), host))
	kinds := Kinds([]string{one, "12@elsewhere@spool-queue", "nobody"})
	require.Len(t, kinds, 1)
	require.Equal(t, "m@20240620", kinds[0].Model)
	require.Equal(t, "models.example:8443", kinds[0].Provider)
	require.Empty(t, Differ(append(kinds, kinds[0])))

	put(t, filepath.Join(cfg.Home, "agents", "more.md"), "---\ndescription: more\n---\nx\n")
	others := Kinds([]string{one, Identity(cfg, env)})
	require.NotEqual(t, others[0].Agents, others[1].Agents)
	require.Contains(t, Differ(others), "differ, and any of them may answer: model m@20240620 of models.example:8443, agents ")
	cfg.OpenAIBaseURL = ""
	require.Equal(t, "demo", Kinds([]string{Identity(cfg, env)})[0].Provider)

	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	require.Empty(t, Kinds([]string{fmt.Sprintf("%d@%s@a,v,y,x", ended.Process.Pid, host)}), "Temporal remembers it for a while")
}

// The scripted model answers only where it was asked for.
func TestTheDemoModelIsAskedFor(t *testing.T) {
	env, quiet := func(string) string { return "" }, slog.New(slog.DiscardHandler)
	cfg := config.Config{Model: "m", Workspace: t.TempDir(), Home: t.TempDir()}
	_, err := Options(cfg, nil, env, quiet)
	require.ErrorContains(t, err, "no model is configured: set OPENAI_API_KEY")
	require.ErrorContains(t, err, "--demo-model")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	put(t, filepath.Join(cfg.Home, "models.yaml"), "providers:\n  other: {baseUrl: 'http://127.0.0.1:1/v1'}\n")
	cfg.Model = "m@other"
	o, err := Options(cfg, nil, env, quiet)
	require.NoError(t, err)
	_, err = o.Model.Generate(t.Context(), hello("plain", ""), nil)
	require.ErrorContains(t, err, "no model is configured")
	cfg.Model, cfg.DemoModel = "m", true
	o, err = Options(cfg, nil, env, quiet)
	require.NoError(t, err)
	reply, err := o.Model.Generate(t.Context(), hello("m", ""), nil)
	require.NoError(t, err)
	require.NotEmpty(t, reply.Content)
}

package boot

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

func put(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func hello(model, provider string) agent.ModelRequest {
	return agent.ModelRequest{Model: model, Provider: provider, Messages: []agent.Message{{Role: agent.RoleUser, Content: agent.Text("hello")}}}
}

// A worker starts with mistakes that concern some models only, says so, and the calls
// of these fail with the same words.
func TestAWorkerSaysAtItsStartWhichModelsCannotWork(t *testing.T) {
	other := llmtest.Run(t)
	other.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusUnauthorized) })
	home := t.TempDir()
	table := put(t, filepath.Join(home, "models.yaml"), "providers:\n  other: {baseUrl: '"+other.URL()+"', apiKeyEnv: OTHER_KEY}\n")
	file := put(t, filepath.Join(home, "agents", "lost.md"), "---\nprovider: othr\n---\nx\n")
	cfg := config.Config{Model: "main", Workspace: t.TempDir(), Home: home, FallbackModels: []string{"a@other", "b@othr"}, OpenAIBaseURL: "http://127.0.0.1:1/v1"}
	var log bytes.Buffer
	o, err := Options(cfg, nil, func(string) string { return "" }, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Contains(t, log.String(), "provider other has no key, as the environment has no OTHER_KEY")
	require.Contains(t, log.String(), table+":2")
	require.Contains(t, log.String(), "the model b@othr names a provider othr")
	require.Contains(t, log.String(), file+":2: agent lost cannot be used: no provider othr is set up (set up: other)")

	_, err = o.Model.Generate(t.Context(), hello("m", "othr"), nil)
	require.ErrorContains(t, err, "no provider othr is set up (set up: other)")
	_, err = o.Model.Generate(t.Context(), hello("a@other", ""), nil)
	require.ErrorContains(t, err, "OTHER_KEY, which provider other ("+table+":2) names is not set in the worker's environment")
	// A file that comes later is warned of, too.
	put(t, filepath.Join(home, "agents", "later.md"), "---\nmodel: m@another\n---\nx\n")
	_, ok := o.Agents.Get("later")
	require.True(t, ok)
	require.Contains(t, log.String(), "agent later cannot be used: the model m@another names a provider another")
}

// The table is read when a worker starts. What becomes of the file later, breaking it
// included, is for the next one: that one does not start with a broken table.
func TestTheTableOfModelsIsReadOnce(t *testing.T) {
	other := llmtest.Run(t)
	home := t.TempDir()
	path := put(t, filepath.Join(home, "models.yaml"), "models: [{match: m, window: 5000}]\nproviders:\n  other: {baseUrl: '"+other.URL()+"'}\n")
	cfg := config.Config{Model: "main", DemoModel: true, Workspace: t.TempDir(), Home: home}
	env, quiet := func(string) string { return "" }, slog.New(slog.DiscardHandler)
	o, err := Options(cfg, nil, env, quiet)
	require.NoError(t, err)
	put(t, path, "providers: [broken")
	_, err = o.Model.Generate(t.Context(), hello("m@other", ""), nil)
	require.NoError(t, err)
	require.Len(t, other.Records(), 1)
	require.Equal(t, int64(5000), o.Models.Lookup("m@other").Window)
	_, err = Options(cfg, nil, env, quiet)
	require.ErrorContains(t, err, path+":1: no table of models")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))

	put(t, path, "")
	cfg.Model = "m@other"
	_, err = Options(cfg, nil, env, quiet)
	require.ErrorContains(t, err, "model (from default): the model m@other names a provider other, and none of that name is set up (there is only")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

// A log of the wire holds no key of any provider; a provider's key goes to it alone.
func TestEachProviderGetsItsOwnKey(t *testing.T) {
	keys := map[string][]string{}
	server := func(name string) string {
		s := llmtest.Run(t)
		s.Raw(func(w http.ResponseWriter, r *http.Request, _ []byte) {
			keys[name] = append(keys[name], r.Header.Get("Authorization"))
			_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`))
		})
		return s.URL()
	}
	own, a, free := server("own"), server("a"), server("free")
	home := t.TempDir()
	put(t, filepath.Join(home, "models.yaml"), "providers:\n  a: {baseUrl: '"+a+"', apiKeyEnv: A_KEY}\n  free: {baseUrl: '"+free+"'}\n")
	cfg := config.Config{Model: "main", Workspace: t.TempDir(), Home: home, OpenAIBaseURL: own, OpenAIKey: config.NewSecret("own-key")}
	env := map[string]string{"A_KEY": "a-key"}
	o, err := Options(cfg, nil, func(name string) string { return env[name] }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for _, r := range []agent.ModelRequest{hello("m", ""), hello("m@a", ""), hello("m", "free"), hello("m@20240620", "a")} {
		_, err := o.Model.Generate(t.Context(), r, nil)
		require.NoError(t, err)
	}
	require.Equal(t, map[string][]string{"own": {"Bearer own-key"}, "a": {"Bearer a-key", "Bearer a-key"}, "free": {""}}, keys)
}

package boot

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
)

// Nobody pays for the scripted model, whatever model is named.
func TestTheDemoModelCostsNothing(t *testing.T) {
	env := func(string) string { return "" }
	cfg := config.Config{Model: "gpt-4o-mini", DemoModel: true, Workspace: t.TempDir(), Home: t.TempDir()}
	o, err := Options(cfg, nil, env, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Zero(t, o.Models.Lookup("gpt-4o-mini").Price)
	cfg.OpenAIBaseURL = "http://127.0.0.1:1/v1"
	o, err = Options(cfg, nil, env, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NotZero(t, o.Models.Lookup("gpt-4o-mini").Price)
	cfg.Price = agent.Price{Input: 7, Output: 8}
	o, err = Options(cfg, nil, env, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, 7.0, o.Models.Lookup("gpt-4o-mini").Price.Input)
}

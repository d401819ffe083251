package spool_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/memory"
)

// TestWorkerOfPublicParts: another program makes a whole worker of what this
// package offers, with a model on the wire and the built-in tools beside its own.
func TestWorkerOfPublicParts(t *testing.T) {
	server := llmtest.Run(t)
	model, err := spool.NewModel(spool.ModelOptions{BaseURL: server.URL(), APIKey: "sk-test", Model: "stub"})
	require.NoError(t, err)
	_, err = spool.NewModel(spool.ModelOptions{BaseURL: "::"})
	assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	tools, err := spool.NewTools(append(spool.BuiltinTools(""), wordTools()...)...)
	require.NoError(t, err)
	_, err = spool.NewTools(append(wordTools(), wordTools()...)...)
	assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	agents, warnings := spool.NewAgents(t.TempDir(), t.TempDir())
	assert.Empty(t, warnings)
	store, err := spool.OpenStore(t.Context(), "memory:")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := spool.NewWorker(ctx, spool.WorkerOptions{
		Store: store, Temporal: dial(), Model: model, Tools: tools, Agents: agents, Workspace: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-ended); assert.NoError(t, store.Close()) })
	c := spool.NewClient(store, dial(), spool.ClientOptions{UserID: "ada"})
	r := ask(c, memory.SendRequest{Content: agent.Text(`script: call calculator {"expression": "6*7"} && call look_up {"word": "spool"} ;; echo I know:`)})
	assert.Equal(t, "completed", r.Status, r.Error)
	assert.Contains(t, r.Response, "42")
	assert.Contains(t, r.Response, "wound on")
}

package spool_test

import (
	"context"
	"encoding/base64"
	"errors"
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
	_, err = spool.NewModel(spool.ModelOptions{BaseURL: server.URL(), Providers: map[string]spool.ModelOptions{"other": {BaseURL: "::"}}})
	assert.ErrorContains(t, err, "provider other")
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

// What names a provider is asked there with that one's key, and one that is not set up
// is never asked elsewhere. Prices come from the table.
func TestProvidersAndPricesFromGo(t *testing.T) {
	own, other := llmtest.Run(t), llmtest.Run(t)
	model, err := spool.NewModel(spool.ModelOptions{BaseURL: own.URL(), Model: "m", Providers: map[string]spool.ModelOptions{"other": {BaseURL: other.URL(), APIKey: "sk-other"}}})
	require.NoError(t, err)
	hello := []agent.Message{{Role: agent.RoleUser, Content: agent.Text("hello")}}
	_, err = model.Generate(t.Context(), agent.ModelRequest{Model: "n@other", Messages: hello}, nil)
	require.NoError(t, err)
	_, err = model.Generate(t.Context(), agent.ModelRequest{Provider: "third", Messages: hello}, nil)
	require.ErrorContains(t, err, "no provider third is set up")
	assert.Equal(t, []int{0, 1}, []int{len(own.Records()), len(other.Records())})

	known, err := spool.KnownModels("", spool.ModelRow{Match: "ours", Window: 9000, Price: &agent.Price{Input: 1, Output: 2}})
	require.NoError(t, err)
	assert.Equal(t, int64(9000), known.Lookup("ours").Window)
	assert.NotZero(t, known.Lookup("gpt-4o").Price.Input, "the built-in table")
	_, err = spool.KnownModels("", spool.ModelRow{})
	assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

// Ask returns when nobody can be asked, tells the errors of callbacks, and goes on with
// the turn when it is called with the same message again.
func TestAskGoesOnWhereItEnded(t *testing.T) {
	c, stop := start()
	t.Cleanup(stop)
	r := memory.SendRequest{SessionID: "s", MessageID: "m", Content: agent.Text(`script: call publish {"word": "spool"} ;; ask Sure? ;; echo Done:`)}
	reply, err := c.Ask(t.Context(), r, spool.AskOptions{})
	require.NoError(t, err)
	assert.Equal(t, "waiting_for_approval", reply.Status)
	approve := func(context.Context, spool.ApprovalRequest) (memory.Decision, error) {
		return memory.Decision{Verdict: memory.Approve}, nil
	}
	gone := errors.New("nobody is there")
	_, err = c.Ask(t.Context(), r, spool.AskOptions{Decide: approve, Answer: func(context.Context, spool.QuestionRequest) (string, error) { return "", gone }})
	require.ErrorIs(t, err, gone)
	var seen []string
	reply, err = c.Ask(t.Context(), r, spool.AskOptions{
		Update: func(u spool.Update) {
			for _, m := range u.Messages {
				seen = append(seen, m.Content.String())
			}
		},
		Answer: func(_ context.Context, q spool.QuestionRequest) (string, error) { return "yes, " + q.Text, nil },
	})
	require.NoError(t, err)
	assert.Equal(t, "completed", reply.Status, reply.Error)
	assert.Contains(t, reply.Response, "yes, Sure?")
	require.NotEmpty(t, seen)
	assert.Equal(t, reply.Response, seen[len(seen)-1], "all that led to the end was told")

	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.Ask(ctx, memory.SendRequest{SessionID: "t", Content: agent.Text(`script: first 60s say late`)}, spool.AskOptions{Update: func(spool.Update) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
}

// An agent in code that cannot be used is an error before anything runs.
func TestAgentsInCodeAreChecked(t *testing.T) {
	store, err := spool.OpenStore(t.Context(), "memory:")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	tools, err := spool.NewTools()
	require.NoError(t, err)
	_, err = spool.NewWorker(t.Context(), spool.WorkerOptions{
		Store: store, Temporal: dial(), Model: spool.DemoModel(), Tools: tools, OwnAgents: []agent.SpecialistAgentConfig{{Name: "mute"}},
	})
	require.ErrorContains(t, err, "agent mute in code: it has no SystemPrompt")
	keys, err := spool.LoadEncryptionKeys("2026=" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	require.NoError(t, err)
	assert.Equal(t, []string{"2026"}, keys.IDs())
	_, err = spool.LoadEncryptionKeys("2026=short")
	require.Error(t, err)
}

// The tools of a program come with those of MCP servers, of which none is here.
func TestToolsOfAProgramAndOfMCPServers(t *testing.T) {
	all, start, err := spool.NewToolsWithMCP(spool.MCPOptions{}, spool.NewTool(agent.ToolSpec{Name: "find"}, func(context.Context, agent.ToolRun, struct{}) agent.ToolResult {
		return agent.ToolOK("found")
	}))
	require.NoError(t, err)
	defer start(t.Context())()
	names := []string{}
	for _, s := range all.Specs(nil) {
		names = append(names, s.Name)
	}
	require.Contains(t, names, "find")
}

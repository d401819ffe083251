package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// Rows 24, 52, 53: trace shows the tree down and the way up, each with state,
// duration, tokens, price and a link into Temporal's Web UI.
func TestRow52_TraceCommand(t *testing.T) {
	s := stack(t)
	s.Env = append(s.Env, "SPOOL_TEMPORAL_UI=http://ui.example", "SPOOL_PRICE_INPUT=1000", "SPOOL_PRICE_OUTPUT=1000")
	s.StartWorker()
	child := script.Script(script.Task("researcher", "script: fail 400 say never"), "first 300ms say child end")
	r := s.Ask("s1", script.Script(script.Calls(script.Task("general", child), background("researcher", "script: say late")), "say root end"))
	require.Equal(t, "root end", r.Response, r.Error)
	quiet(t, s, r.ThreadID)

	out := says(t, s, 0, "trace", r.ThreadID, "--json")
	var root spool.Node
	require.NoError(t, json.Unmarshal([]byte(out), &root))
	require.Equal(t, r.ThreadID, root.Thread.ID)
	require.Len(t, root.Children, 2)
	general, late := root.Children[0], root.Children[1]
	if general.Thread.AgentType != "general" {
		general, late = late, general
	}
	require.Len(t, general.Children, 1)
	deep := general.Children[0]
	require.Equal(t, []agent.ThreadStatus{agent.ThreadCompleted, agent.ThreadCompleted, agent.ThreadFailed},
		[]agent.ThreadStatus{general.Thread.Status, late.Thread.Status, deep.Thread.Status})
	require.Equal(t, agent.CallFailed, deep.Link.CallStatus)
	require.Equal(t, agent.TaskFailed, deep.Link.TaskStatus)
	require.Equal(t, "bad_request", deep.Error.Code)
	require.Nil(t, root.Error)
	require.True(t, late.Link.Background)
	require.GreaterOrEqual(t, general.DurationMs, int64(300))
	for _, n := range []*spool.Node{&root, general, late} {
		require.Positive(t, n.Tokens, n.Thread.ID)
		require.InDelta(t, float64(n.Tokens)/1000, n.Price, 1e-9)
		require.Contains(t, n.UI, "http://ui.example/namespaces/default/workflows/")
	}
	require.GreaterOrEqual(t, root.Tokens, general.Tokens+late.Tokens, "the root's totals hold the tree's")

	out = says(t, s, 0, "trace", deep.Thread.ID)
	for _, want := range []string{r.ThreadID + "  completed", "  " + general.Thread.ID + "  completed", deep.Thread.ID, "failed(error)", deep.Link.ToolCallID, deep.UI, root.UI, general.UI} {
		require.Contains(t, out, want)
	}
	out = says(t, s, 0, "trace", r.ThreadID)
	require.Regexp(t, `completed  [0-9.]+m?s, \d+ tokens, \$[0-9.]+`, out)
	require.Contains(t, out, "in the background")
	_, code := starter(t, s, "trace", "agent:general:general-1-000000000000")
	require.Equal(t, 3, code)
}

// Row 2: starter agents shows which templates are in force and from where, what
// they hide, which are disabled, and warnings with file and line.
func TestRow02_AgentsCommand(t *testing.T) {
	s := stack(t)
	write := func(path, text string) string {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	ours := write(filepath.Join(s.Work, ".spool", "agents", "researcher.md"), "---\nname: researcher\ndescription: ours\ntemperatur: 1\n---\nYou are ours.\n")
	theirs := write(filepath.Join(s.Work, ".claude", "agents", "researcher.md"), "---\nname: researcher\ndescription: theirs\n---\nYou are theirs.\n")
	home := write(filepath.Join(s.Dir, "agents", "homely.md"), "You live at home.\n")
	s.Env = append(s.Env, "SPOOL_DISABLED_AGENTS=general")
	require.Contains(t, says(t, s, 0, "agents"), ours+":2: before you agree to this file, it does not take the place of the agent researcher")
	says(t, s, 0, "trust", "--yes")
	out := says(t, s, 0, "agents")
	for _, want := range []string{ours + ":4: unknown key \"temperatur\"", "instead of " + theirs, "instead of built in", home, "general (disabled)"} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "theirs\n")
}

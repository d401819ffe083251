package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// No other agent answers in place of one that the worker does not know: the turn
// fails with what is known and where it was looked for, and can be retried once
// the agent's file is there. A thread whose agent is taken away later goes on
// with the snapshot of it.
func TestAnUnknownAgentEndsItsTurn(t *testing.T) {
	s := begin(t)
	req := s.Message("late", script.Script(script.Call("shell", map[string]any{"command": "touch ran"}), "say HERE"))
	req.Agent = "late"
	sent := send(t, s, req)
	r := s.Wait(sent)
	require.Equal(t, string(agent.ThreadFailed), r.Status)
	require.Equal(t, agent.ReasonError, r.Reason)
	require.Equal(t, agent.CodeUnknownAgent, r.ErrorCode)
	for _, want := range []string{`there is no agent "late"`, "orchestrator", "researcher", filepath.Join(s.Work, ".spool", "agents"), "retry thread " + r.ThreadID} {
		require.Contains(t, r.Error, want)
	}
	require.Empty(t, s.Model.Records(), "no model was called")

	// An unknown agent that follows in a thread of a known one gets nothing of it.
	known := s.Ask("known", "HERE")
	require.Equal(t, string(agent.ThreadCompleted), known.Status, known.Error)
	follow := s.Message("known", "HERE")
	follow.Agent = "nosuch"
	next := send(t, s, follow)
	other := s.Wait(next)
	th, err := s.Store.Thread(s.Ctx(), "", known.ThreadID)
	require.NoError(t, err)
	require.Equal(t, agent.CodeUnknownAgent, other.ErrorCode, "%+v %+v", other, th)

	file := filepath.Join(s.Work, ".spool", "agents", "late.md")
	require.NoError(t, os.WriteFile(file, []byte("---\nname: late\ndescription: comes late\ntools: [ls]\n---\nYou came late.\n"), 0o644))
	again := retry(t, s, r, "")
	require.NotEqual(t, agent.CodeUnknownAgent, s.Wait(again).ErrorCode)
	th, err = s.Store.Thread(s.Ctx(), "", r.ThreadID)
	require.NoError(t, err)
	require.Equal(t, []string{"ls"}, th.Config.Tools)
	require.Empty(t, th.Config.Missing)
	require.NoFileExists(t, filepath.Join(s.Work, "ran"))

	require.NoError(t, os.Remove(file))
	more := s.Message("late", "HERE")
	last := send(t, s, more)
	require.NotEqual(t, agent.CodeUnknownAgent, s.Wait(last).ErrorCode)
	th, err = s.Store.Thread(s.Ctx(), "", r.ThreadID)
	require.NoError(t, err)
	require.Contains(t, th.Config.SystemPrompt, "You came late.")
}

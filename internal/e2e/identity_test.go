package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/memory/port"
)

// Row 104: a thread's id is its memory key and its workflow id: each thread of a tree
// is found by one id in the store, through MemoryPort, and in Temporal.
func TestRow104_OneIDInStoreMemoryAndTemporal(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", script.Script(script.Task("general", script.Script(script.Task("researcher", "script: say below"), "say between")), "say done"))
	require.Equal(t, "done", r.Response)
	m := port.NewPersistedMemory[agent.Message](s.Client.Memory(""))
	keys, err := m.Keys(s.Ctx())
	require.NoError(t, err)
	found := 0
	for _, th := range tree(t, s, r.ThreadID) {
		found++
		require.Contains(t, keys, th.ID)
		kept, err := m.Get(s.Ctx(), th.ID)
		require.NoError(t, err)
		require.Equal(t, len(messages(t, s, th.ID)), len(kept), th.ID)
		d, err := s.Temporal.DescribeWorkflow(s.Ctx(), th.ID, "")
		require.NoError(t, err)
		require.Equal(t, th.ID, d.WorkflowExecution.ID)
	}
	require.Equal(t, 3, found)
}

// Row 43: what two sub-agents of one type do at once stays apart: each event on their
// parent names its agent and the call that ordered the work, and says how it ended.
func TestRow43_ParallelSubAgentsDoNotMix(t *testing.T) {
	s := stack(t)
	template(t, s, "limited", "timeoutMs: 1000\napproval: {shell: auto}\n", "You do what you are told.")
	s.StartWorker()
	r := s.Ask("s1", script.Script(script.Calls(
		script.Task("general", script.Script(add(1, 2), "say one")), script.Task("general", script.Script(add(3, 4), "say two")),
		script.Task("limited", script.Script(slow("late", 60), "say never"))), "say done"))
	require.Equal(t, "done", r.Response, r.Error)
	type about struct {
		AgentID, AgentName, ToolCallID, ParentToolCallID, Result, Status, Reason string
		Arguments                                                                json.RawMessage
	}
	story := map[string][]string{} // by the call that ordered the work
	agents := map[string]string{}
	for _, e := range events(t, s, r.ThreadID) {
		if !strings.HasPrefix(e.Type, "sub_agent_") || e.Type == agent.EventSubAgentMetrics {
			continue
		}
		var a about
		require.NoError(t, json.Unmarshal(e.Data, &a))
		call := a.ParentToolCallID
		if e.Type == agent.EventSubAgentStarted {
			call = a.ToolCallID
		}
		require.NotEmpty(t, a.AgentID)
		if agents[call] == "" {
			agents[call] = a.AgentID
		}
		require.Equal(t, agents[call], a.AgentID, "%s of %s", e.Type, call)
		story[call] = append(story[call], fmt.Sprint(strings.TrimPrefix(e.Type, "sub_agent_"), string(a.Arguments), a.Status, a.Reason, strings.SplitN(a.Result, " ", 2)[0]))
	}
	require.Len(t, story, 3)
	for call, want := range map[int][]string{
		0: {"started", `tool_call{"expression":"1+2"}`, "tool_resultsuccess", "completedcompletedone"},
		1: {"started", `tool_call{"expression":"3+4"}`, "tool_resultsuccess", "completedcompletedtwo"},
	} {
		id := callsOf(t, s, r.ThreadID)[call].ID
		require.Equal(t, want, story[id])
	}
	last := story[callsOf(t, s, r.ThreadID)[2].ID]
	require.True(t, strings.HasPrefix(last[len(last)-1], "completedfailedtimeout"), "%q", last)
}

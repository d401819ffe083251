package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRow13_TaskOutputParams(t *testing.T) {
	p, err := ParseTaskOutputParams([]byte(`{"agentId":"general-1-a","waitMs":600000}`))
	require.NoError(t, err)
	require.Equal(t, TaskOutputParams{AgentID: "general-1-a", WaitMs: 600000}, p)
	_, err = ParseTaskOutputParams(nil)
	require.NoError(t, err, "all is optional")
	for _, bad := range []string{`{"waitMs":-1}`, `{"waitMs":600001}`, `{"agentId":1}`, `{"agent":"x"}`, `[]`} {
		_, err := ParseTaskOutputParams([]byte(bad))
		require.Equal(t, CodeInvalid, CodeOf(err), bad)
	}
}

func TestThreadOfAgent(t *testing.T) {
	id := NewAgentID("code-reviewer", time.UnixMilli(1764277154123), "p", "t", "c")
	require.Equal(t, "agent:code-reviewer:"+id, ThreadOfAgent(id))
	require.Equal(t, "agent:code-reviewer:"+id, ThreadOfAgent("agent:code-reviewer:"+id))
	for _, bad := range []string{"", "x", "x-1", "s/default", "agent:", "a/b-1-2", "-1-2"} {
		require.Empty(t, ThreadOfAgent(bad), bad)
	}
}

func TestFormatTaskList(t *testing.T) {
	require.Contains(t, FormatTaskList(nil), "no sub-agents")
	text := FormatTaskList([]TaskState{
		{AgentID: "g-1-a", AgentType: "g", Status: ThreadRunning, Duration: 2 * time.Second, Description: "look\n it up"},
		{AgentID: "g-2-b", AgentType: "g", Status: ThreadFailed, Reason: ReasonTimeout},
	})
	require.Contains(t, text, "\n- g-1-a, g, running for 2s: look it up")
	require.Contains(t, text, "\n- g-2-b, g, timeout: ")
}

package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// What asks asks each time for an agent that no person has agreed to, so that nothing
// approved for the session reaches it.
func TestAgentsNotAgreedToAskEachTime(t *testing.T) {
	r, err := tool.New(tool.Builtin(tool.Options{})...)
	require.NoError(t, err)
	a := &Activities{Tools: r}
	call := func(name, args string) agent.Call { return agent.NewCall("c", name, args) }
	for unagreed, want := range map[bool]agent.Gate{false: agent.GateAsk, true: agent.GateAskEach} {
		c := agent.SpecialistAgentConfig{Unagreed: unagreed}
		require.Equal(t, want, a.gate(c, call("shell", `{"command":"date"}`), agent.ToolRun{}))
		require.Equal(t, agent.GateAuto, a.gate(c, call("calculator", `{"expression":"1"}`), agent.ToolRun{}))
		child := agent.SpecialistAgentFactory{}.Build(agent.SpecialistAgentConfig{}, c, agent.AssignParams{})
		require.Equal(t, unagreed, child.Unagreed)
	}
}

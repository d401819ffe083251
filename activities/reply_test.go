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

// A name with marks of a template around it is that of the tool; one that may mean two tools,
// or none, stays.
func TestCase_W05_NamesThatNearlyFit(t *testing.T) {
	offered := []agent.ToolSpec{{Name: "file_read"}, {Name: "ls"}, {Name: "mcp__a__ls"}, {Name: "LS2"}}
	for name, want := range map[string]string{
		"file_read": "file_read", "functions.file_read": "file_read", "default_api:file_read": "file_read", "file_read<|channel|>commentary": "file_read", " file_read\n": "file_read", "File_Read": "file_read",
		"mcp__a__ls": "mcp__a__ls", "ls2": "LS2", "ls file_read": "ls file_read", "file_reads": "file_reads", "my_ls": "my_ls", "": "", "\u6587": "\u6587", "functions.x": "functions.x",
	} {
		call := agent.NewCall("c", name, `{}`)
		new(Activities).readCall(&call, offered)
		require.Equal(t, want, call.Function.Name)
	}
}

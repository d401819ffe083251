package template

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// Agents in code come before files of the same name, and what is wrong with one is an error.
func TestAgentsInCode(t *testing.T) {
	files, _ := Load(Folders{})
	own := []agent.SpecialistAgentConfig{{Name: "researcher", SystemPrompt: "Ours."}, {Name: "clerk", SystemPrompt: "File.", Tools: []string{"ls"}}}
	all, err := With(files, own)
	require.NoError(t, err)
	got, ok := all.Get("researcher")
	require.True(t, ok)
	assert.Equal(t, []string{"Ours.", InCode}, []string{got.SystemPrompt, got.Source})
	_, ok = all.Get("general")
	assert.True(t, ok, "those of files stay")
	var names []string
	for _, c := range all.List() {
		names = append(names, c.Name)
	}
	assert.IsIncreasing(t, names)
	assert.Len(t, names, len(files.List())+1)
	clerk, _ := all.Get("clerk")
	clerk.Tools[0] = "shell"
	clerk, _ = all.Get("clerk")
	assert.Equal(t, "ls", clerk.Tools[0], "what a caller does to a copy changes nothing")

	for want, c := range map[string]agent.SpecialistAgentConfig{
		"a b":                  {Name: "a b", SystemPrompt: "x"},
		"no SystemPrompt":      {Name: "a", SystemPrompt: " "},
		"two of this name":     {Name: "clerk", SystemPrompt: "x"},
		"approval of shell is": {Name: "a", SystemPrompt: "x", Approval: map[string]string{"shell": "never"}},
		"OnDeny is stop":       {Name: "a", SystemPrompt: "x", OnDeny: "stop"},
	} {
		_, err := With(files, append(own, c))
		assert.ErrorContains(t, err, want)
		assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err), want)
	}
}

package amended_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/amended"
)

func TestCheck(t *testing.T) {
	thread := agent.Thread{Workdir: t.TempDir(), Config: agent.SpecialistAgentConfig{
		Name: "careful", Approval: map[string]string{"shell(rm *)": "deny", "mcp__x__*": "ask"}, Bounds: []map[string]string{{"file_write(keys/*)": "deny"}},
	}}
	for _, c := range []struct{ name, args, refused string }{
		{"shell", `{"command":"ls"}`, ""},
		{"shell", `{"command":"rm -r x"}`, "policy of agent careful denies shell"},
		{"shell", `{"command":3}`, "not valid"},
		{"shell", `{}`, "not valid"},
		{"file_write", `{"path":"a","content":"b"}`, ""},
		{"file_write", `{"path":"keys/a","content":"b"}`, "denies file_write"},
		{"mcp__x__y", `{"whatever":1}`, ""},
	} {
		err := amended.Check(thread, c.name, json.RawMessage(c.args))
		if c.refused == "" {
			require.NoError(t, err, c.args)
			continue
		}
		require.ErrorContains(t, err, c.refused, c.args)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}

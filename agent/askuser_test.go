package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/agent"
)

func TestParametersOfAQuestion(t *testing.T) {
	p, err := agent.ParseAskUserParams(json.RawMessage(`{"question":" which? ","options":[" a ","b"]}`))
	assert.NoError(t, err)
	assert.Equal(t, agent.AskUserParams{Question: "which?", Options: []string{"a", "b"}}, p)
	for _, bad := range []string{
		`{"question":"q","options":["no, keep it","1"]}`, `{"question":" "}`, `{"options":["a"]}`, `{"question":"q","options":["a"," "]}`, `{"question":"q","options":"a"}`, `{"question":"q","more":1}`,
		`{"question":"q","options":["` + strings.Repeat("x", 201) + `"]}`, `{"question":"q","options":["1"` + strings.Repeat(`,"x"`, 9) + `]}`,
	} {
		_, err := agent.ParseAskUserParams(json.RawMessage(bad))
		assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err), bad)
	}
}

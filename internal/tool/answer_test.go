package tool

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

func TestCheckAnswer(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["city"],"properties":{"city":{"type":"string"},"degrees":{"type":"number"}},"additionalProperties":false}`)
	for _, c := range []struct{ answer, clean, problem string }{
		{`{"city":"Oslo"}`, `{"city":"Oslo"}`, ""},
		{" \n{\"city\":\"Oslo\",\"degrees\":3.5}\n", `{"city":"Oslo","degrees":3.5}`, ""},
		{"```json\n{\"city\":\"Oslo\"}\n```", `{"city":"Oslo"}`, ""},
		{`{"degrees":"warm"}`, `{"degrees":"warm"}`, "degrees: got string, want number"},
		{`{"city":"Oslo","x":1}`, `{"city":"Oslo","x":1}`, "additional properties 'x' not allowed"},
		{`It is Oslo.`, `It is Oslo.`, "it is not one JSON value"},
		{`{"city":"Oslo"} {"city":"Rome"}`, `{"city":"Oslo"} {"city":"Rome"}`, "it is not one JSON value"},
		{``, ``, "it is not one JSON value"},
	} {
		clean, problem := CheckAnswer(schema, c.answer)
		require.Equal(t, c.clean, clean)
		if c.problem == "" {
			require.Empty(t, problem, c.answer)
			continue
		}
		require.Contains(t, problem, c.problem, c.answer)
	}
}

// A schema that is none is refused, and none reads a file or the network.
func TestCheckAnswerSchema(t *testing.T) {
	for _, bad := range []string{``, `{`, `{"type":"thing"}`, `{"$ref":"file:///etc/passwd"}`, `{"$ref":"http://127.0.0.1/x"}`, `{"pattern":"("}`} {
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(CheckAnswerSchema(json.RawMessage(bad))), bad)
	}
	require.NoError(t, CheckAnswerSchema(json.RawMessage(`{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}`)))
}

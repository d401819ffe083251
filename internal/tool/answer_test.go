package tool

import (
	"encoding/json"
	"os"
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
		_, err := AnswerSchema(json.RawMessage(bad))
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), bad)
	}
	_, err := AnswerSchema(json.RawMessage(`{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}`))
	require.NoError(t, err)
}

// The wrappers of other programs are taken off, and what demands nothing is refused.
func TestCase_S01_WrappedSchemas(t *testing.T) {
	given, err := os.ReadFile("testdata/cases/schema-openai-wrapper.json")
	require.NoError(t, err)
	inner := `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`
	named := `{"name":"x","description":"d","strict":true,"schema":` + inner + `}`
	for _, text := range []string{inner, string(given), named, `{"schema": ` + inner + `}`, `{"type":"json_schema","json_schema":` + named + `}`,
		`{"response_format":{"type":"json_schema","json_schema":` + named + `}}`, `{"text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":` + inner + `}}}`} {
		schema, err := AnswerSchema(json.RawMessage(text))
		require.NoError(t, err, text)
		require.JSONEq(t, inner, string(schema), text)
		_, problem := CheckAnswer(schema, `{}`)
		require.Contains(t, problem, "a", text)
	}
	for _, text := range []string{`{"a":1}`, `{"name":"x","parameters":` + inner + `}`, `{"name":"x","input_schema":` + inner + `}`, `{"name":"x","schema":"{}"}`, `{"schema":` + inner + `,"json_schema":` + inner + `}`} {
		_, err := AnswerSchema(json.RawMessage(text))
		require.ErrorContains(t, err, "is no keyword of JSON schema", text)
	}
	for _, fine := range []string{`{}`, `true`, `{"properties":{"schema":{"type":"object"},"name":{}}}`, `{"type":"object","properties":{"json_schema":{}}}`} {
		schema, err := AnswerSchema(json.RawMessage(fine))
		require.NoError(t, err, fine)
		require.Equal(t, fine, string(schema))
	}
}

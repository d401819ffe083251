package tool

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/schema"
)

// The schema of arguments is what encoding/json reads into them, and a tool is held to it.
func TestTheSchemaIsThatOfTheArguments(t *testing.T) {
	type order struct {
		Number string   `json:"number" jsonschema:"the order's number"`
		Notes  []string `json:"notes,omitempty"`
	}
	find := Func(agent.ToolSpec{Name: "find", Schema: schema.Of[order]()}, func(_ context.Context, _ agent.ToolRun, o order) agent.ToolResult {
		return agent.ToolOK("found " + o.Number)
	})
	assert.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["number"],"properties":{
		"number":{"type":"string","description":"the order's number"},"notes":{"type":["null","array"],"items":{"type":"string"}}}}`, string(find.Spec().Schema))
	r, err := New(find)
	require.NoError(t, err)
	run := func(args string) agent.ToolResult {
		return r.Run(t.Context(), "find", agent.ToolRun{Args: json.RawMessage(args)})
	}
	assert.Equal(t, "found 7", run(`{"number":"7"}`).Content)
	assert.Equal(t, agent.ErrInvalidInput, run(`{}`).ErrorReason)
	assert.Contains(t, run(`{"number":"7","color":"red"}`).Content, "color")

	assert.PanicsWithValue(t, "chan int has no JSON schema: For[chan int](): type chan int is unsupported by jsonschema", func() { schema.Of[chan int]() })
}

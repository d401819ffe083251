package tool

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// A tool without a schema gets that of its arguments, and is held to it.
func TestTheSchemaIsThatOfTheArguments(t *testing.T) {
	type order struct {
		Number string   `json:"number" jsonschema:"the order's number"`
		Notes  []string `json:"notes,omitempty"`
	}
	find := Func(agent.ToolSpec{Name: "find"}, func(_ context.Context, _ agent.ToolRun, o order) agent.ToolResult { return agent.ToolOK("found " + o.Number) })
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

	_, err = New(Func(agent.ToolSpec{Name: "odd"}, func(_ context.Context, _ agent.ToolRun, _ chan int) agent.ToolResult { return agent.ToolOK("") }))
	assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	assert.ErrorContains(t, err, `the arguments of tool "odd" have no schema`)
}

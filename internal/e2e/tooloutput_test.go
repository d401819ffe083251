package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// A result too long to be shown is kept whole, and the model reads the rest with
// tool_output: its own and its sub-agents', nobody else's. An agent with a list
// of tools is offered it once there is something to read.
func TestToolOutputReadsWhatWasShortened(t *testing.T) {
	s := stack(t)
	template(t, s, "digger", "description: digs\ntools: shell\n", "You dig.")
	s.StartWorker()
	long := script.Call("shell", map[string]any{"command": `head -c 150000 /dev/zero | tr '\0' x; echo; echo THE-NEEDLE; head -c 150000 /dev/zero | tr '\0' y`})
	first := s.Ask("s1", script.Script(long, "say read"))
	calls := callsOf(t, s, first.ThreadID)
	shown := messages(t, s, first.ThreadID)[2].Content.String()
	require.NotContains(t, shown, "THE-NEEDLE")
	require.Contains(t, shown, "kept with call "+calls[0].ID+", tool_output reads it")
	read := func(id string, offset int) string {
		return script.Call("tool_output", map[string]any{"toolCallId": id, "offset": offset, "limit": 1000})
	}
	r := s.Ask("s1", script.Script(read(calls[0].ID, 149_500), "echo got"))
	require.Contains(t, r.Response, "THE-NEEDLE")
	require.Contains(t, r.Response, "[bytes 149500 to 150500 of 300")

	other := s.Ask("s2", script.Script(read(calls[0].ID, 0), read("no-such-call", 0), script.Call("tool_output", map[string]any{}), "echo got"))
	require.NotContains(t, other.Response, "xxx")
	for i, c := range must(s.Store.ToolCalls(s.Ctx(), other.ThreadID)) {
		require.Equal(t, []agent.ErrorReason{agent.ErrNotFound, agent.ErrNotFound, agent.ErrInvalidInput}[i], c.ErrorReason)
	}

	s.Ask("s3", script.Script(script.Task("digger", script.Script(long, "say dug")), "say ok"))
	child := tree(t, s, s.Thread("s3"))[1]
	below := must(s.Store.ToolCalls(s.Ctx(), child.ID))[0]
	r = s.Ask("s3", script.Script(read(below.ID, 149_500), "echo got"))
	require.Contains(t, r.Response, "THE-NEEDLE")
	var lists []string
	for _, rec := range s.Model.Records() {
		lists = append(lists, fmt.Sprint(toolNames(t, rec.Tools)))
	}
	require.Contains(t, lists, "[shell]")
	require.Contains(t, lists, "[shell tool_output]")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// tree draws spans, each below the one that it is part of.
func tree(spans []spool.Span) string {
	below, at := map[string][]spool.Span{}, map[string]bool{"": true}
	for _, s := range spans {
		below[s.Parent] = append(below[s.Parent], s)
		at[s.ID] = true
	}
	var b strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		for _, s := range below[parent] {
			fmt.Fprintf(&b, "%s%s %s %s\n", indent, s.Kind, s.Name, s.Status)
			draw(s.ID, indent+"  ")
		}
	}
	draw("", "")
	for parent := range below {
		if !at[parent] {
			b.WriteString("nothing has the id " + parent + "\n")
		}
	}
	return b.String()
}

// spans reads those of the turn of TestAnswersAreAsTheDocumentSays: a tree of what it did
// and what the sub-agent did, and what the calls were sent.
func (b *bench) spans(r spool.Reply) {
	b.t.Helper()
	var line spool.Spans
	b.get("/api/v1/threads/" + id(r.ThreadID) + "/spans?turn=" + r.TurnID).is(200).into(&line)
	require.Equal(b.t, `model spool-script tool_calls
tool calculator success
agent general success
  model spool-script tool_calls
  tool shell success
  approval general approve_all
  model spool-script stop
model spool-script stop
`, tree(line.Spans))
	ids := map[string]bool{}
	var sub spool.Span
	for _, s := range line.Spans {
		require.NotNil(b.t, s.End, "%+v", s)
		require.Equal(b.t, s.Kind == spool.SpanAgent, s.SubAgentThreadID != "")
		require.Equal(b.t, s.Kind == spool.SpanModel, s.Step > 0)
		require.False(b.t, ids[s.ID], "%s stands there once", s.ID)
		ids[s.ID] = true
		if s.Kind == spool.SpanAgent {
			sub = s
			require.Contains(b.t, s.Text, "script: call shell")
			require.Positive(b.t, s.Usage.TotalTokens)
		}
	}
	var own spool.Spans
	b.get("/api/v1/threads/" + id(sub.SubAgentThreadID) + "/spans").is(200).into(&own)
	require.Equal(b.t, 4, len(own.Spans), "of its last turn")

	var sent spool.Sent
	steps := "/api/v1/threads/" + id(r.ThreadID) + "/turns/" + r.TurnID + "/steps/"
	b.get(steps + "2").is(200).into(&sent)
	require.Contains(b.t, sent.System, "You ask first.")
	require.Contains(b.t, sent.System, "<env>")
	require.Equal(b.t, []agent.Role{"user", "assistant", "tool", "tool"}, roles(sent.Messages))
	require.Contains(b.t, sent.Reply.Content.String(), "it says")
	require.Positive(b.t, sent.Reply.Usage.TotalTokens)
	require.Equal(b.t, []int{1, 0}, []int{sent.Attempts, sent.Failed})
	b.get(steps+"9").fails(404, "not_found", "no model call 9")
	b.get(steps+"x").fails(404, "not_found")
	b.get("/api/v1/threads/"+id(sub.SubAgentThreadID)+"/turns/"+r.TurnID+"/steps/1").fails(404, "not_found")
	var call agent.ToolCall
	b.get("/api/v1/tool-calls/" + sub.ID).is(200).into(&call)
	require.Equal(b.t, "assign_task", call.ToolName)
	b.get("/api/v1/tool-calls/nonsense").fails(404, "not_found")
}

func roles(messages []agent.Message) (out []agent.Role) {
	for _, m := range messages {
		out = append(out, m.Role)
	}
	return out
}

// A worker that is killed in a call is in the trace, with the one that went on, on the
// call; what had ended before runs once. What a background sub-agent does goes on after
// its call.
func TestALostWorkerIsInTheTrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.StartWorker()
	child := "script: slow 100ms say one two three four five six seven"
	r := b.say("s", script.Script(script.Call("calculator", map[string]any{"expression": "6*7"}),
		script.Calls(script.Call("grep", map[string]any{"pattern": "x", "path": "."}), script.Call("assign_task", map[string]any{"agent": "general", "task": child, "background": true})),
		"slow 200ms say one two three four five six seven eight nine ten"))
	tt.Eventually(t, "the last answer streams", func() bool {
		s, err := b.Store.Stream(b.Ctx(), r.ThreadID)
		return err == nil && s != nil && s.Step == 3 && s.Text != ""
	})
	first.Kill()
	b.StartWorker()
	require.Equal(t, "completed", b.ends(r).Status)
	var line spool.Spans
	tt.Eventually(t, "the child is done", func() bool {
		b.get("/api/v1/threads/" + id(r.ThreadID) + "/spans?turn=" + r.TurnID).is(200).into(&line)
		return strings.Contains(tree(line.Spans), "agent general completed")
	})
	drawn := tree(line.Spans)
	for _, part := range []string{"tool calculator success\n", "tool grep success\n", "model  lost\nlost  \nmodel spool-script stop\n"} {
		require.Contains(t, drawn, part)
	}
	for _, s := range line.Spans {
		switch s.Kind {
		case spool.SpanLost:
			require.Regexp(t, `^(a worker|worker \d+) was lost in the middle of a call, worker \d+ makes it again; nothing that was stored is repeated$`, s.Text)
		case spool.SpanAgent:
			require.GreaterOrEqual(t, s.DurationMs, int64(500), "as long as the work took")
		}
	}
	b.Verify()
}

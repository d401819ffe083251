package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

// testKey must never show in an error.
const testKey = "sk-very-secret"

func newModel(t *testing.T, s *llmtest.Server, change ...func(*Config)) *Model {
	t.Helper()
	cfg := Config{BaseURL: s.URL(), APIKey: testKey, Model: "m", IdleTimeout: time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	m, err := New(cfg)
	require.NoError(t, err)
	return m
}

func hello(stream bool) agent.ModelRequest {
	return agent.ModelRequest{Stream: stream, Messages: []agent.Message{{Role: agent.RoleUser, Content: agent.Text("hi")}}}
}

// outcome is one call: its reply or error, and what was streamed.
type outcome struct {
	reply    agent.ModelReply
	err      error
	streamed string
	thought  string
}

// failure is the typed error of a call that had to fail.
func (o outcome) failure(t *testing.T) *agent.ModelError {
	t.Helper()
	var e *agent.ModelError
	require.ErrorAs(t, o.err, &e)
	require.NotContains(t, o.err.Error(), testKey)
	return e
}

func generate(ctx context.Context, m *Model, r agent.ModelRequest) outcome {
	var o outcome
	var text, thought strings.Builder
	o.reply, o.err = m.Generate(ctx, r, func(d agent.Delta) {
		text.WriteString(d.Text)
		thought.WriteString(d.Reasoning)
	})
	o.streamed, o.thought = text.String(), thought.String()
	return o
}

// against makes one streamed call to a server that answers by f.
func against(t *testing.T, f llmtest.RawFunc, change ...func(*Config)) outcome {
	t.Helper()
	s := llmtest.Run(t)
	s.Raw(f)
	return generate(t.Context(), newModel(t, s, change...), hello(true))
}

// sends is a server that writes a body as an event stream and ends it.
func sends(body string) llmtest.RawFunc {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, body)
	}
}

// events makes a stream of chunks.
func events(chunks ...string) string {
	var sb strings.Builder
	for _, c := range chunks {
		sb.WriteString("data: " + c + "\n\n")
	}
	return sb.String()
}

func says(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"choices":[{"index":0,"delta":{"content":` + string(b) + `}}]}`
}

func calls(pieces string) string {
	return `{"choices":[{"index":0,"delta":{"tool_calls":[` + pieces + `]}}]}`
}

func ends(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

package llm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

type named string

func (n named) Generate(_ context.Context, r agent.ModelRequest, _ func(agent.Delta)) (agent.ModelReply, error) {
	return agent.ModelReply{Content: string(n) + " " + r.Model}, nil
}

func TestRouter(t *testing.T) {
	m := Router{Default: named("default"), Providers: map[string]agent.Model{"mistral": named("mistral"), "local": named("local")}}
	for _, c := range []struct{ model, provider, want string }{
		{"m", "", "default m"}, {"m", "mistral", "mistral m"}, {"m@local", "", "local m"}, {"m@local", "mistral", "local m"},
		{"claude@20240620", "", "default claude@20240620"}, {"claude@20240620@mistral", "", "mistral claude@20240620"}, {"@local", "", "default @local"},
	} {
		reply, err := m.Generate(t.Context(), agent.ModelRequest{Model: c.model, Provider: c.provider}, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, reply.Content)
	}
	_, err := m.Generate(t.Context(), agent.ModelRequest{Model: "m", Provider: "other"}, nil)
	var e *agent.ModelError
	require.ErrorAs(t, err, &e)
	require.Equal(t, agent.ModelUnknown, e.Code)
	require.Contains(t, e.Message, "there are local, mistral")
}

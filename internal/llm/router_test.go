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
		{"claude@20240620", "", "default claude@20240620"}, {"claude@20240620@mistral", "", "mistral claude@20240620"}, {"m@team@", "", "default m@team"},
	} {
		reply, err := m.Generate(t.Context(), agent.ModelRequest{Model: c.model, Provider: c.provider}, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, reply.Content)
	}
	// A mistyped provider is nobody's: no other one is asked, with a key that is not meant.
	for _, r := range []agent.ModelRequest{{Model: "m", Provider: "other"}, {Model: "m@other"}, {Model: "m@other", Provider: "local"}} {
		_, err := m.Generate(t.Context(), r, nil)
		var e *agent.ModelError
		require.ErrorAs(t, err, &e)
		require.Equal(t, agent.ModelUnknown, e.Code)
		require.False(t, e.Retryable)
		require.Contains(t, e.Message, "set up: local, mistral")
	}
	_, err := Router{Default: named("default")}.Generate(t.Context(), agent.ModelRequest{Model: "m@other"}, nil)
	require.ErrorContains(t, err, "there is only the one of the settings")
}

type refusing struct{ err error }

func (r refusing) Generate(context.Context, agent.ModelRequest, func(agent.Delta)) (agent.ModelReply, error) {
	return agent.ModelReply{}, r.err
}

// A model's errors and replies say where it is asked, and a refusal of the key where
// that comes from.
func TestPlaced(t *testing.T) {
	at := agent.ModelPlace{Provider: "mistral", Address: "baseUrl", KeyToDo: "check MISTRAL_API_KEY"}
	refused := &agent.ModelError{Code: agent.ModelAuth, Status: 401, Message: "no key given"}
	reply, err := Placed(refusing{refused}, at, "MISTRAL_API_KEY is not set").Generate(t.Context(), agent.ModelRequest{Model: "m"}, nil)
	require.EqualError(t, err, "model call failed (auth, HTTP 401): no key given (MISTRAL_API_KEY is not set)")
	require.Equal(t, "no key given", refused.Message, "an error may be shared")
	var e *agent.ModelError
	require.ErrorAs(t, err, &e)
	require.Equal(t, "m at mistral refused the key (HTTP 401): no key given (MISTRAL_API_KEY is not set). To do: check MISTRAL_API_KEY.", e.Final())
	require.Equal(t, at, reply.At)
	_, err = Placed(refusing{&agent.ModelError{Code: agent.ModelOverloaded}}, at, "x").Generate(t.Context(), agent.ModelRequest{}, nil)
	require.NotContains(t, err.Error(), "(x)")
	_, err = Placed(refusing{context.Canceled}, at, "x").Generate(t.Context(), agent.ModelRequest{}, nil)
	require.Equal(t, context.Canceled, err)
}

package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// The one rule of what a model's name says about its provider.
func TestRouteModel(t *testing.T) {
	known := map[string]bool{"mistral": true, "local": true, "v9": true}
	for _, c := range []struct{ model, provider, name, at string }{
		{"m", "", "m", ""},
		{"", "mistral", "", "mistral"},
		{"m", "mistral", "m", "mistral"},
		{"m@local", "", "m", "local"},
		{"m@local", "mistral", "m", "local"},
		{"m@v9", "", "m", "v9"},
		{"claude-3-5-sonnet@20240620", "", "claude-3-5-sonnet@20240620", ""},
		{"claude-3-5-sonnet-v2@20241022@mistral", "", "claude-3-5-sonnet-v2@20241022", "mistral"},
		{"text-bison@001", "local", "text-bison@001", "local"},
		{"m@v2", "", "m@v2", ""}, {"m@latest", "", "m@latest", ""}, {"claude-opus@default", "", "claude-opus@default", ""},
		{"@cf/meta/llama-3.1-8b", "", "@cf/meta/llama-3.1-8b", ""},
		{"@cf/meta/llama-3.1-8b@local", "", "@cf/meta/llama-3.1-8b", "local"},
		{"workers-ai/@cf/meta/llama", "", "workers-ai/@cf/meta/llama", ""},
		{"m@sha256:abc", "", "m@sha256:abc", ""},
		{"@local", "", "@local", ""},
		{"m@team@", "", "m@team", ""}, {"m@local@", "", "m@local", ""}, {"m@team@", "mistral", "m@team", "mistral"},
	} {
		r, err := agent.RouteModel(c.model, c.provider, known)
		require.NoError(t, err, c.model)
		require.Equal(t, agent.ModelRoute{Model: c.name, Provider: c.at}, r, "%s, provider %q", c.model, c.provider)
	}
	for _, c := range []struct{ model, provider, want string }{
		{"m@nosuch", "", "the model m@nosuch names a provider nosuch, and none of that name is set up (set up: local, mistral, v9)"},
		{"m@nosuch", "mistral", "or write m@nosuch@ if all of that is the model's name"},
		{"m@Mistral", "", "Mistral"}, {"m@local2", "", "local2"}, {"m@vertex", "", "vertex"},
		{"m", "nosuch", "no provider nosuch is set up (set up: local, mistral, v9): correct the name, or add it to models.yaml"},
		{"m@20240620", "nosuch", "no provider nosuch"},
	} {
		_, err := agent.RouteModel(c.model, c.provider, known)
		var unknown *agent.UnknownProvider
		require.ErrorAs(t, err, &unknown, c.model)
		require.ErrorContains(t, err, c.want)
	}
	_, err := agent.RouteModel[bool]("m@nosuch", "", nil)
	require.ErrorContains(t, err, "there is only the one of the settings")
}

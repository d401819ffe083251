package llm

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// Router passes each call to the model client of its provider. A request names the
// provider in its Provider field or behind the model's name, as in
// "mistral-large-latest@mistral"; one that names none goes to Default. Safe for
// concurrent use if its clients are.
type Router struct {
	Default   agent.Model
	Providers map[string]agent.Model
}

var _ agent.Model = Router{}

// Generate calls the provider's client.
func (m Router) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	if i := strings.LastIndexByte(r.Model, '@'); i > 0 && m.Providers[r.Model[i+1:]] != nil {
		r.Model, r.Provider = r.Model[:i], r.Model[i+1:]
	}
	if r.Provider == "" {
		return m.Default.Generate(ctx, r, onDelta)
	}
	client := m.Providers[r.Provider]
	if client == nil {
		return agent.ModelReply{}, &agent.ModelError{Code: agent.ModelUnknown, Message: "no provider " + r.Provider + " is set up; there are " +
			strings.Join(slices.Sorted(maps.Keys(m.Providers)), ", ") + ": add it to models.yaml in the worker's home, or leave it out of the agent's file"}
	}
	return client.Generate(ctx, r, onDelta)
}

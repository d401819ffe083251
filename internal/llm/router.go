package llm

import (
	"context"
	"errors"

	"github.com/spool-agents/spool/agent"
)

// Router passes each call to the model client of its provider, as agent.RouteModel
// finds it; one that names none goes to Default. Safe for concurrent use if its
// clients are.
type Router struct {
	Default   agent.Model
	Providers map[string]agent.Model
}

var _ agent.Model = Router{}

// Generate calls the provider's client.
func (m Router) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	at, err := agent.RouteModel(r.Model, r.Provider, m.Providers)
	if err != nil {
		return agent.ModelReply{}, &agent.ModelError{Code: agent.ModelUnknown, Message: err.Error()}
	}
	r.Model, r.Provider = at.Model, at.Provider
	if at.Provider == "" {
		return m.Default.Generate(ctx, r, onDelta)
	}
	return m.Providers[at.Provider].Generate(ctx, r, onDelta)
}

// Keyed says in a provider's refusal of the key where the key comes from, or
// should: origin is a sentence's part such as "the key is the one of OPENAI_API_KEY".
func Keyed(model agent.Model, origin string) agent.Model { return keyed{model, origin} }

type keyed struct {
	agent.Model
	origin string
}

// Generate calls the model.
func (m keyed) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	reply, err := m.Model.Generate(ctx, r, onDelta)
	var e *agent.ModelError
	if errors.As(err, &e) && e.Code == agent.ModelAuth {
		told := *e
		told.Message += " (" + m.origin + ")"
		return reply, &told
	}
	return reply, err
}

package llm

import (
	"cmp"
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
		failed := &agent.ModelError{Code: agent.ModelUnknown, Message: err.Error(), Model: r.Model}
		var unknown *agent.UnknownProvider
		if errors.As(err, &unknown) {
			failed.Message = unknown.What()
			failed.ToDo = unknown.ToDo() + "; models are named by SPOOL_MODEL, model and provider in the agent's file, and `starter send --model`"
		}
		return agent.ModelReply{}, failed
	}
	r.Model, r.Provider = at.Model, at.Provider
	if at.Provider == "" {
		return m.Default.Generate(ctx, r, onDelta)
	}
	return m.Providers[at.Provider].Generate(ctx, r, onDelta)
}

// Placed says in a model's errors, and with its replies, where it is asked; in a
// refusal of the key also where the key comes from, or should: origin is a sentence's
// part such as "the key is the one of OPENAI_API_KEY".
func Placed(model agent.Model, at agent.ModelPlace, origin string) agent.Model {
	return placed{model, at, origin}
}

type placed struct {
	agent.Model
	at     agent.ModelPlace
	origin string
}

// Generate calls the model.
func (m placed) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	reply, err := m.Model.Generate(ctx, r, onDelta)
	var e *agent.ModelError
	failed := errors.As(err, &e)
	if m.at.Provider = cmp.Or(m.at.Provider, reply.At.Provider); failed {
		m.at.Provider = cmp.Or(m.at.Provider, e.At.Provider)
	}
	if reply.At = m.at; !failed {
		return reply, err
	}
	told := *e
	told.Model, told.At = cmp.Or(e.Model, r.Model), m.at
	if e.Code == agent.ModelAuth {
		told.Message += " (" + m.origin + ")"
	}
	return reply, &told
}

package spool

import (
	"context"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/postgres"
	"github.com/spool-agents/spool/memory/sqlite"
)

// OpenStore opens the store that a specification names, making it if need be. This
// build supports sqlite:PATH and postgres://USER:PASSWORD@HOST:PORT/DATABASE.
func OpenStore(ctx context.Context, spec string) (memory.ConversationMemoryStore, error) {
	scheme, path, ok := strings.Cut(spec, ":")
	switch {
	case ok && scheme == "sqlite" && path != "":
		store, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			return nil, err // not a nil *sqlite.Store in an interface
		}
		return store, nil
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		store, err := postgres.Open(ctx, spec, postgres.Options{})
		if err != nil {
			return nil, err
		}
		return store, nil
	case ok && (scheme == "file" || scheme == "memory"):
		return nil, agent.Errorf(agent.CodeInvalid, "this build has no %s store: use sqlite:PATH or postgres://USER@HOST/DATABASE", scheme)
	}
	return nil, agent.Errorf(agent.CodeInvalid, "store %q is not valid: use sqlite:PATH or postgres://USER@HOST/DATABASE, the ones this build supports", spec)
}

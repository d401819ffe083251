package spool

import (
	"context"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/sqlite"
)

// OpenStore opens the store that a specification names, making it if need be. This
// build supports sqlite:PATH.
func OpenStore(ctx context.Context, spec string) (memory.ConversationMemoryStore, error) {
	scheme, path, ok := strings.Cut(spec, ":")
	switch {
	case ok && scheme == "sqlite" && path != "":
		store, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			return nil, err // not a nil *sqlite.Store in an interface
		}
		return store, nil
	case ok && (scheme == "postgres" || scheme == "postgresql" || scheme == "file" || scheme == "memory"):
		return nil, agent.Errorf(agent.CodeInvalid, "this build has no %s store: use sqlite:PATH", scheme)
	}
	return nil, agent.Errorf(agent.CodeInvalid, "store %q is not valid: use sqlite:PATH, the one this build supports", spec)
}

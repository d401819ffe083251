package rawstore

import (
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Open makes the Persistence of a location: "sqlite:PATH", "postgres://…",
// "file:PATH" (a JSON file) or "memory:". Nothing is opened or made before its first access, so a
// location can be given that is never used.
func Open(location string, o Options) (memory.Persistence, error) {
	kind, path, found := strings.Cut(location, ":")
	switch {
	case !found:
	case kind == "memory" && path == "":
		return memory.NewInMemory(), nil
	case path == "":
	case kind == "file":
		return memory.NewJSONFile(path, memory.JSONFileOptions{Wait: o.wait()}), nil
	case kind == "sqlite":
		return SQLite(path, o), nil
	case kind == "postgres", kind == "postgresql":
		p, err := Postgres(location, o)
		if err != nil {
			return nil, err // not a nil *SQL in an interface
		}
		return p, nil
	}
	return nil, agent.Errorf(agent.CodeInvalid, "memory location %q is not known: use sqlite:PATH, postgres://…, file:PATH or memory:", agent.MaskURL(location))
}

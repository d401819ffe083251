package spool

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/filestore"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/postgres"
	"github.com/spool-agents/spool/memory/sqlite"
)

// StoreOptions are the settings of a store; the zero value is usable.
type StoreOptions struct {
	// UserID and Profile own what a file: store finds in files of programs that
	// know no users.
	UserID, Profile string
	// Report gets what a person should know of a file: store: damaged files
	// that were set aside, files that could not be read or written. nil = the
	// default log.
	Report func(error)
}

const storesAllowed = "use sqlite:PATH, postgres://USER@HOST/DATABASE, file:DIR or memory:"

// OpenStore opens the store that a specification names, making it if need be:
//
//	sqlite:PATH                               one file, several processes of one machine
//	postgres://USER:PASSWORD@HOST/DATABASE    several machines
//	file:DIR, file:DIR?prefix=NAME            a JSON file per thread, one process
//	memory:                                   this process only; gone when closed
func OpenStore(ctx context.Context, spec string) (memory.ConversationMemoryStore, error) {
	return OpenStoreWith(ctx, spec, StoreOptions{})
}

// OpenStoreWith is OpenStore with settings.
func OpenStoreWith(ctx context.Context, spec string, o StoreOptions) (memory.ConversationMemoryStore, error) {
	scheme, path, ok := strings.Cut(spec, ":")
	switch {
	case ok && scheme == "sqlite" && path != "":
		return opened(sqlite.Open(ctx, path, sqlite.Options{}))
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		return opened(postgres.Open(ctx, spec, postgres.Options{}))
	case ok && scheme == "file" && path != "":
		return openFiles(ctx, path, o)
	case spec == "memory:":
		return opened(sqlite.OpenMemory(ctx, sqlite.Options{}))
	}
	return nil, agent.Errorf(agent.CodeInvalid, "store %q is not valid: %s", agent.MaskURL(spec), storesAllowed)
}

func openFiles(ctx context.Context, path string, o StoreOptions) (memory.ConversationMemoryStore, error) {
	dir, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "store file:%s is not valid: use file:DIR or file:DIR?prefix=NAME", path)
	}
	files := filestore.Options{Prefix: values.Get("prefix"), UserID: o.UserID, Profile: o.Profile, Report: o.Report}
	if files.Report == nil {
		files.Report = func(err error) { slog.Warn("file store", "report", err.Error()) }
	}
	return opened(filestore.Open(ctx, dir, files))
}

// opened is a store, or none: not a nil pointer in an interface.
func opened[T memory.ConversationMemoryStore](store T, err error) (memory.ConversationMemoryStore, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// MemoryOptions say what OpenMemory shows: the conversations of a user in a
// profile, of one session if it is set.
type MemoryOptions = port.StoreOptions

// OpenMemory opens memory by keys: json:PATH, one JSON file for programs that keep
// their own, or the conversations in any store of OpenStore.
func OpenMemory(ctx context.Context, spec string, o MemoryOptions) (port.MemoryPersistence, error) {
	if path, ok := strings.CutPrefix(spec, "json:"); ok && path != "" {
		return port.NewJSONFile(path, port.JSONFileOptions{}), nil
	}
	store, err := OpenStoreWith(ctx, spec, StoreOptions{UserID: o.UserID, Profile: o.Profile})
	if err != nil {
		return nil, err
	}
	o.Owned = true
	return port.NewStore(store, o), nil
}

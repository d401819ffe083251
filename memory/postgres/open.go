// Package postgres is the store for several machines: workers, senders and
// readers on any of them share one PostgreSQL database (version 12 or newer).
//
// Transactions are READ COMMITTED with explicit locks. Every operation first
// locks the row of its tree's root thread, so that all writes in a tree of
// threads are serial and nobody holds one lock of a tree while waiting for
// another; streamed text locks only its step. What is shared between trees
// (sessions, configurations, remembered approvals) is inserted unless it is
// there. Should the database undo a transaction all the same because of another
// one, the operation is run again; no caller sees a deadlock.
//
// The clock is the database's, so that machines need not agree on the time. A
// commit waits for the server's disk as long as the server's synchronous_commit
// says so: leave it on, else Temporal can be ahead of the store.
//
// Statements are prepared and transactions span several of them: a pooler in
// between must pool sessions, not transactions or statements.
package postgres

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/sqlstore"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// Options of a store; the zero value is what programs use.
type Options struct {
	// Clock is the store's clock, for tests; nil = the database's.
	Clock func() time.Time
	// MaxConnections bounds this process's connections, half of them for
	// writing; 0 = the URL's pool_max_conns, else DefaultMaxConnections.
	MaxConnections int
	// LockTimeout is how long a statement waits for another transaction; 0 = 30 s.
	LockTimeout time.Duration

	schema fs.FS // tests of migrations
}

// DefaultMaxConnections is how many connections a process uses at most.
const DefaultMaxConnections = 16

// Store is the PostgreSQL implementation of memory.ConversationMemoryStore.
type Store struct {
	*sqlstore.Store
	name string
}

// Name is the store's address without its password.
func (s *Store) Name() string { return s.name }

// lockSchema is held while the schema is looked at and brought up to date. Its
// key is of this program and the schema that the tables are in.
const lockSchema = `SELECT pg_advisory_xact_lock(7233, hashtext('spool:' || current_schema()))`

// Open opens the store in a database, which must exist, and makes or upgrades
// its tables. The URL is postgres://USER:PASSWORD@HOST:PORT/DATABASE with the
// parameters of libpq (sslmode, search_path, …) and pool_max_conns; what it
// leaves out comes from PGPASSWORD and the like. Errors name the store without
// its password. Close the store after use.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	p, err := parse(url, o)
	if err != nil {
		return nil, err
	}
	b := newBackend(p)
	s, err := open(ctx, b, p, o)
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	return s, nil
}

func open(ctx context.Context, b *backend, p place, o Options) (*Store, error) {
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	schema := o.schema
	if schema == nil {
		sub, err := fs.Sub(schemaFiles, "schema")
		if err != nil {
			return nil, err
		}
		schema = sub
	}
	s, err := sqlstore.New(ctx, b, sqlstore.Dialect{
		Name:     "postgres",
		Numbered: true,
		// The root's row stands for the tree. NO KEY: rows that refer to it may be
		// written meanwhile; they are written by whoever holds this lock.
		LockTree:   `SELECT id FROM threads WHERE id = (SELECT root_id FROM threads WHERE id = ?) FOR NO KEY UPDATE`,
		LockRow:    ` FOR NO KEY UPDATE`,
		LockParent: ` FOR UPDATE`,
		LockSchema: lockSchema,
		Retry:      undone,
		Lost: func(err error) (bool, bool) {
			var unknown *unknownError
			open := errors.As(err, &unknown)
			return open || lost(err), open
		},
		Schema:      schema,
		MapError:    mapError(p.name),
		TableExists: `SELECT COUNT(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?`,
	}, sqlstore.Options{Clock: o.Clock})
	if err != nil {
		return nil, err
	}
	return &Store{Store: s, name: p.name}, nil
}

// check connects and refuses a database that cannot hold every text.
func (b *backend) check(ctx context.Context) error {
	var encoding, schema string
	err := b.Read(ctx, func(q sqlstore.Queryer) error {
		return q.QueryRowContext(ctx, `SELECT current_setting('server_encoding'), COALESCE(current_schema(), '')`).Scan(&encoding, &schema)
	})
	switch {
	case err != nil:
		return mapError(b.name)(err)
	case encoding != "UTF8":
		return agent.Errorf(agent.CodeInvalid, "postgres store %s: its encoding is %s, which cannot hold every text: create a database with ENCODING 'UTF8' TEMPLATE template0", b.name, encoding)
	case schema == "":
		return agent.Errorf(agent.CodeInvalid, "postgres store %s: no schema of the search_path exists: create it, or set search_path in the URL", b.name)
	}
	return nil
}

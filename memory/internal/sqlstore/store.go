// Package sqlstore is the ConversationMemoryStore over database/sql. A package per
// technology supplies a Backend (transactions and reads) and a Dialect (what
// differs in SQL); everything else is here, once, in floors:
//
//	rows    the tables: rows, the write transaction, the reader, the schema
//	rules   what docs/state-machine.md says: one file per table of it
//	read    the reading side
//	copy    export, import, fork, removal, images
//	audit   looking for damage, and repair
//
// A floor uses what is below it only: rules and read stand on rows; copy and audit
// stand on rules. This package puts them together.
package sqlstore

import (
	"context"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/audit"
	copies "github.com/spool-agents/spool/memory/internal/sqlstore/copy"
	"github.com/spool-agents/spool/memory/internal/sqlstore/read"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rules"
)

// What a database must supply, and what it is told: see package rows.
type (
	// Backend is a database.
	Backend = rows.Backend
	// TimedBackend is a Backend whose database has a clock.
	TimedBackend = rows.TimedBackend
	// Tx is a write transaction.
	Tx = rows.Tx
	// TimedTx is a Tx that knows when it began.
	TimedTx = rows.TimedTx
	// Queryer runs statements.
	Queryer = rows.Queryer
	// Dialect is what differs between databases.
	Dialect = rows.Dialect
	// Options of a store.
	Options = rows.Options
)

// The floors by names of their own, so that they can stand in one struct.
type (
	rulesStore = rules.Store
	readStore  = read.Store
	copyStore  = copies.Store
	auditStore = audit.Store
)

// Store is a memory.ConversationMemoryStore over a Backend.
type Store struct {
	*rulesStore
	*readStore
	*copyStore
	*auditStore
	rows *rows.Store
}

var _ memory.ConversationMemoryStore = (*Store)(nil)

// New brings the schema up to date and reads the store's id. The Store closes
// the Backend; if New fails its caller does.
func New(ctx context.Context, b Backend, d Dialect, o Options) (*Store, error) {
	s, err := rows.New(ctx, b, d, o)
	if err != nil {
		return nil, err
	}
	return &Store{rulesStore: rules.New(s), readStore: read.New(s), copyStore: copies.New(s), auditStore: audit.New(s), rows: s}, nil
}

// ID is the store's own id.
func (s *Store) ID() string { return s.rows.ID() }

// Close ends all connections.
func (s *Store) Close() error { return s.rows.Close() }

// Changed returns a number that differs after each commit of anyone.
func (s *Store) Changed(ctx context.Context) (int64, error) { return s.rows.Changed(ctx) }

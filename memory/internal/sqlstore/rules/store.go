package rules

import (
	"context"

	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Store is the writing side of the store: each method is an operation of
// docs/state-machine.md.
type Store struct{ rows *rows.Store }

// New puts this floor on the rows of a store.
func New(s *rows.Store) *Store { return &Store{rows: s} }

// Unit is a write transaction with the rules of the state machine.
type Unit struct{ *rows.Unit }

// write runs f as one transaction; name is its crash point.
func (s *Store) write(ctx context.Context, name string, f func(*Unit) error) error {
	return s.rows.Write(ctx, name, func(u *rows.Unit) error { return f(&Unit{u}) })
}

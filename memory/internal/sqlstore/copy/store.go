package copy

import (
	"context"

	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rules"
)

// Store exports, imports, forks and removes threads, and keeps their images.
type Store struct{ rows *rows.Store }

// New puts this floor on the rows of a store.
func New(s *rows.Store) *Store { return &Store{rows: s} }

// unit is a write transaction with the steps of copying.
type unit struct{ *rules.Unit }

// look runs f on the state of one moment and changes nothing.
func (s *Store) look(ctx context.Context, f func(*unit) error) error {
	return s.rows.Look(ctx, func(u *rows.Unit) error { return f(&unit{&rules.Unit{Unit: u}}) })
}

// write runs f as one transaction; name is its crash point.
func (s *Store) write(ctx context.Context, name string, f func(*unit) error) error {
	return s.rows.Write(ctx, name, func(u *rows.Unit) error { return f(&unit{&rules.Unit{Unit: u}}) })
}

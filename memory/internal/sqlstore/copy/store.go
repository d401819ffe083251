// Package copy moves whole threads: export, import, fork, removal, and the images
// that their messages refer to.
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

// write runs f as one transaction; name is its crash point.
func (s *Store) write(ctx context.Context, name string, f func(*unit)) error {
	return s.rows.Write(ctx, name, func(u *rows.Unit) { f(&unit{&rules.Unit{Unit: u}}) })
}

// writing is write of an operation that returns a value.
func writing[T any](ctx context.Context, s *Store, name string, f func(*unit) T) (v T, err error) {
	err = s.write(ctx, name, func(u *unit) { v = f(u) })
	return v, err
}

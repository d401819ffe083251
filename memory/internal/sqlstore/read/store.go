package read

import "github.com/spool-agents/spool/memory/internal/sqlstore/rows"

// Store is the reading side of the store.
type Store struct{ rows *rows.Store }

// New puts this floor on the rows of a store.
func New(s *rows.Store) *Store { return &Store{rows: s} }

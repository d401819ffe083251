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
type Unit struct {
	*rows.Unit
	gone string // the worker that was found to be lost, if this operation found it
}

// write runs f as one transaction; name is its crash point.
func (s *Store) write(ctx context.Context, name string, f func(*Unit) error) error {
	return s.rows.Write(ctx, name, func(u *rows.Unit) error { return f(&Unit{Unit: u}) })
}

// OpenStep loads a thread, its turn, fenced, and a step of that; nil if it has not begun.
func (u *Unit) OpenStep(threadID, turnID string, n int) (*rows.Thread, *rows.Turn, *rows.Step, error) {
	t, turn, err := u.Open(threadID, turnID)
	if err != nil {
		return nil, nil, nil, err
	}
	step, err := u.Step(turnID, n)
	return t, turn, step, err
}

// OpenCall loads a thread, its turn, fenced, and a call of that.
func (u *Unit) OpenCall(threadID, turnID, callID string) (*rows.Thread, *rows.Turn, *rows.Call, error) {
	t, turn, err := u.Open(threadID, turnID)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := u.Call(turnID, callID)
	return t, turn, c, err
}

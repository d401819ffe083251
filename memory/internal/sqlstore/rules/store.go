// Package rules is the writing side of the store: every rule of
// docs/state-machine.md, one file per table of it.
package rules

import (
	"context"
	"errors"

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

// write runs f as one transaction; name is its crash point. A worker that f finds
// to be lost is accounted for apart, before f runs again: it concerns other trees,
// which this operation must not lock.
func (s *Store) write(ctx context.Context, name string, f func(*Unit)) error {
	gone := ""
	for {
		var lost *lostWorker
		err := s.rows.Write(ctx, name, func(u *rows.Unit) { f(&Unit{Unit: u, gone: gone}) })
		if !errors.As(err, &lost) {
			return err
		}
		if err := s.rows.Write(ctx, "lose-worker", func(u *rows.Unit) { (&Unit{Unit: u}).lose(lost.id) }); err != nil {
			return err
		}
		gone = lost.id
	}
}

// writing is write of an operation that returns a value.
func writing[T any](ctx context.Context, s *Store, name string, f func(*Unit) T) (v T, err error) {
	err = s.write(ctx, name, func(u *Unit) { v = f(u) })
	return v, err
}

// OpenStep loads a thread, its turn, fenced, and a step of that; nil if it has not begun.
func (u *Unit) OpenStep(threadID, turnID string, n int) (*rows.Thread, *rows.Turn, *rows.Step) {
	t, turn := u.Open(threadID, turnID)
	return t, turn, u.Step(turnID, n)
}

// OpenCall loads a thread, its turn, fenced, and a call of that.
func (u *Unit) OpenCall(threadID, turnID, callID string) (*rows.Thread, *rows.Turn, *rows.Call) {
	t, turn := u.Open(threadID, turnID)
	return t, turn, u.Call(turnID, callID)
}

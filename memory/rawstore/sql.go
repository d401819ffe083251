package rawstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Dialect is what differs between databases.
type Dialect struct {
	// Name of the database for messages, as in "sqlite memory /x/y.db".
	Name string
	// Numbered placeholders ($1) instead of ?.
	Numbered bool
	// Lock, if not empty, is a statement that begins each write: it makes
	// writers wait for each other, where beginning a transaction does not.
	Lock string
	// TableExists is a query with one placeholder that counts tables of a name.
	TableExists string
	// Retry repeats f, which begins a transaction, while others hold a lock;
	// nil = once.
	Retry func(ctx context.Context, f func() error) error
	// MapError gives a driver's error a code and says what to do; nil = none.
	MapError func(error) error
}

// SQL is a memory.Persistence in a database. An append costs the same whatever
// the key holds already.
type SQL struct {
	d    Dialect
	open func() (write, read *sql.DB, err error)

	mu     sync.Mutex
	ready  bool
	closed bool
	write  *sql.DB
	read   *sql.DB
}

// NewSQL makes a Persistence over what open returns, which may be the same
// database twice. open is called, and tables are made or migrated, by the first
// access. The persistence closes both.
func NewSQL(d Dialect, open func() (write, read *sql.DB, err error)) *SQL {
	if d.Retry == nil {
		d.Retry = func(_ context.Context, f func() error) error { return f() }
	}
	if d.MapError == nil {
		d.MapError = func(err error) error { return err }
	}
	return &SQL{d: d, open: open}
}

// View runs f in a transaction that sees one moment.
func (s *SQL) View(ctx context.Context, _ memory.IDOf, f func(memory.Records) error) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	return s.d.Retry(ctx, func() error {
		return s.in(ctx, unit{db: s.read, o: &sql.TxOptions{ReadOnly: true, Isolation: s.snapshot()}}, f)
	})
}

// snapshot is the isolation in which a transaction sees one moment: SQLite's
// always do.
func (s *SQL) snapshot() sql.IsolationLevel {
	if s.d.Numbered {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault
}

// Update runs f in a transaction of its own.
func (s *SQL) Update(ctx context.Context, _ memory.IDOf, f func(memory.Records) error) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	return s.in(ctx, unit{db: s.write, lock: s.d.Lock, point: "items-save"}, f)
}

// unit says what kind of transaction is wanted.
type unit struct {
	db    *sql.DB
	o     *sql.TxOptions
	lock  string
	point string // of crash points; empty = none
}

// in runs f in a transaction. ctx bounds the wait for it, not its statements:
// a caller that goes away must not leave the outcome of a commit open.
func (s *SQL) in(ctx context.Context, u unit, f func(memory.Records) error) error {
	var tx *sql.Tx
	err := s.d.Retry(ctx, func() (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		tx, err = u.db.BeginTx(context.WithoutCancel(ctx), u.o)
		return err
	})
	if err != nil {
		return s.explain(err)
	}
	defer tx.Rollback()
	if u.lock != "" {
		if _, err := tx.ExecContext(ctx, u.lock); err != nil {
			return s.explain(err)
		}
	}
	r := &records{ctx: context.WithoutCancel(ctx), tx: tx, s: s}
	if err := f(r); err != nil || !r.wrote {
		return err
	}
	if err := ctx.Err(); err != nil {
		return s.explain(err)
	}
	if u.point == "" {
		return s.explain(tx.Commit())
	}
	memory.CrashPoint("before-" + u.point)
	if err := tx.Commit(); err != nil {
		return s.explain(err)
	}
	memory.CrashPoint("after-" + u.point)
	return nil
}

// explain says what an error means for a person.
func (s *SQL) explain(err error) error {
	var known *agent.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return agent.Wrap(err, agent.CodeUnavailable, "%s: the caller gave up waiting; nothing was changed", s.d.Name)
	}
	if mapped := s.d.MapError(err); errors.As(mapped, &known) {
		return mapped
	}
	return agent.Wrap(err, agent.CodeUnavailable, "%s cannot be used: check that it is there and has space, then try again", s.d.Name)
}

// start opens the database once. After a failure the next access tries again.
func (s *SQL) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return agent.Errorf(agent.CodeUnavailable, "%s: it was closed; open it again", s.d.Name)
	}
	if s.ready {
		return nil
	}
	if s.write == nil {
		write, read, err := s.open()
		if err != nil {
			return s.explain(err)
		}
		s.write, s.read = write, read
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	s.ready = true
	return nil
}

// Close ends all connections. A second Close does nothing.
func (s *SQL) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.write == nil {
		return nil
	}
	err := s.write.Close()
	if s.read != s.write {
		err = errors.Join(err, s.read.Close())
	}
	s.write, s.read = nil, nil
	return err
}

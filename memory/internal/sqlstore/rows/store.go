// Package rows is the lowest floor of the store: the rows of its tables, the write
// transaction (Unit), the reader, the schema, and what each back end supplies
// (Backend, Dialect). It knows no rule of docs/state-machine.md.
//
// Each operation is a unit of work: it loads the thread row and the turn row it
// is fenced by, writes the new rows as it goes, and puts the changed thread and
// turn rows back with one statement each before the commit. Counters live in
// those rows, so that no operation gets slower as a thread gets longer.
package rows

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Options of a store.
type Options struct {
	// Clock is the store's clock; nil = that of a TimedBackend, else the system's.
	// It is read once per transaction, after the transaction has the right to write.
	Clock func() time.Time
	// Removing, if not nil, is told which threads a transaction removes, before
	// it commits; what it returns is called when the transaction is over, also if it
	// failed. Committed is told which threads it may have changed, after that. All
	// return soon and use no store.
	Removing  func(threadIDs []string) (over func())
	Committed func(threadIDs []string)
}

// Store is the tables of a Backend: what all floors stand on.
type Store struct {
	b       Backend
	Dialect Dialect
	clock   func() time.Time
	id      string
	sql     rebinder
	configs configCache
	o       Options
}

// New brings the schema up to date and reads the store's id. The Store closes
// the Backend; if New fails its caller does.
func New(ctx context.Context, b Backend, d Dialect, o Options) (*Store, error) {
	if _, timed := b.(TimedBackend); o.Clock == nil && !timed {
		o.Clock = time.Now
	}
	s := &Store{b: b, Dialect: d, clock: o.Clock, sql: rebinder{numbered: d.Numbered}, o: o}
	if err := s.migrate(ctx); err != nil {
		return nil, err
	}
	if err := s.readID(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// ID is the store's own id.
func (s *Store) ID() string { return s.id }

// Close ends all connections.
func (s *Store) Close() error { return s.b.Close() }

// Changed returns a number that differs after each commit of anyone.
func (s *Store) Changed(ctx context.Context) (int64, error) {
	n, err := s.b.Changed(ctx)
	return n, s.Fail("look for changes", err)
}

// readID reads the id, or makes it when the store is new.
func (s *Store) readID(ctx context.Context) error {
	return s.Write(ctx, "open", func(u *Unit) {
		if u.One(`SELECT value FROM meta WHERE key = 'store_id'`).Into(&s.id) {
			return
		}
		if len(u.Strings(`SELECT id FROM sessions WHERE id > '' LIMIT 1`)) > 0 {
			Refuse(agent.CodeInvalid, "%s store: its own id is missing from the table meta (key store_id): it was changed by hand or is damaged; put the id back, which the task queue spool-ID of its workers shows, or restore a backup", s.Dialect.Name)
		}
		var b [4]byte
		Must(rand.Read(b[:]))
		s.id = hex.EncodeToString(b[:])
		u.Exec(`INSERT INTO meta (key, value) VALUES ('store_id', ?)`, s.id)
	})
}

const (
	// maxTries bounds how often a transaction that others undo is run.
	maxTries = 12
	// repeatFor bounds how long a transaction is run again whose commit had no answer.
	repeatFor = 20 * time.Second
)

// Write runs f as one transaction, again if the database undid it because of
// another one, or if its commit had no answer: an operation that took place and is
// repeated changes nothing. name is the operation's crash point.
func (s *Store) Write(ctx context.Context, name string, f func(*Unit)) error {
	return s.repeat(ctx, name, func() error { return s.tryWrite(ctx, name, f) })
}

func (s *Store) repeat(ctx context.Context, name string, run func() error) error {
	var open time.Time // since when it is not known whether it took place
	for try := 1; ; try++ {
		err := run()
		if err == nil || ctx.Err() != nil {
			return s.Fail(name, err)
		}
		// The more often others got in the way, the longer the wait, at random.
		wait := mathrand.N(time.Duration(try) * 4 * time.Millisecond)
		if s.unanswered(err, &open) {
			wait = min(time.Duration(try)*100*time.Millisecond, time.Second)
		} else if s.Dialect.Retry == nil || try >= maxTries || !s.Dialect.Retry(err) {
			return s.Fail(name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// unanswered reports whether a write is to be repeated because a commit of it had no
// answer; open is since when.
func (s *Store) unanswered(err error, open *time.Time) bool {
	if s.Dialect.Lost == nil {
		return false
	}
	lost, unknown := s.Dialect.Lost(err)
	if unknown && open.IsZero() {
		*open = time.Now()
	}
	return lost && !open.IsZero() && time.Since(*open) < repeatFor
}

func (s *Store) tryWrite(ctx context.Context, name string, f func(*Unit)) error {
	tx, err := s.b.Begin(ctx)
	if err != nil {
		return err
	}
	// Also after a panic: a transaction that is not committed gives back its lock.
	defer tx.Rollback()
	u := &Unit{ctx: context.WithoutCancel(ctx), wait: ctx, Store: s, q: tx, Now: s.began(tx).UnixMilli()}
	if err := Caught(func() { f(u); u.Flush() }); err != nil {
		return err
	}
	if s.o.Removing != nil && len(u.Removed) > 0 {
		defer s.o.Removing(u.Removed)()
	}
	memory.CrashPoint("before-" + name)
	err = tx.Commit()
	if err == nil {
		memory.CrashPoint("after-" + name)
	}
	if s.o.Committed != nil && err == nil {
		s.o.Committed(u.touched())
	}
	return err
}

// began is when a transaction began by the store's clock.
func (s *Store) began(tx Tx) time.Time {
	if timed, ok := tx.(TimedTx); ok && s.clock == nil {
		return timed.Now()
	}
	return s.clock()
}

// Now reads the store's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if s.clock != nil {
		return s.clock(), nil
	}
	t, err := s.b.(TimedBackend).Now(ctx) // New made sure of it
	return t, s.Fail("read the clock", err)
}

// Read runs f for reading; f must not depend on several statements seeing the
// same state unless they tell rows that never change.
func (s *Store) Read(ctx context.Context, f func(*Reader)) error {
	err := s.b.Read(ctx, func(q Queryer) error { return Caught(func() { f(&Reader{ctx: ctx, s: s, q: q}) }) })
	return s.Fail("read", err)
}

// Fail gives an error without a code one.
func (s *Store) Fail(op string, err error) error {
	if err == nil {
		return nil
	}
	var coded *agent.Error
	if errors.As(err, &coded) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return agent.Wrap(err, agent.CodeUnavailable, "%s store: the caller gave up waiting (%s); nothing was changed", s.Dialect.Name, op)
	}
	if mapped := s.Dialect.MapError(err); errors.As(mapped, &coded) {
		return mapped
	}
	return agent.Wrap(err, agent.CodeInternal, "%s store: %s failed", s.Dialect.Name, op)
}

// Look runs f on the state of one moment and changes nothing.
func (s *Store) Look(ctx context.Context, f func(*Unit)) error {
	return s.repeat(ctx, "read", func() error {
		tx, err := s.b.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		u := &Unit{ctx: context.WithoutCancel(ctx), wait: ctx, Store: s, q: tx, Now: s.began(tx).UnixMilli()}
		return Caught(func() { f(u) })
	})
}

// NotOurs makes an error that rows of a file have led to a refusal of the file.
func (s *Store) NotOurs(err error, format string, args ...any) error {
	switch agent.CodeOf(s.Fail("import", err)) {
	case "", agent.CodeUnavailable:
		return err
	}
	return agent.Wrap(err, agent.CodeInvalid, format, args...)
}

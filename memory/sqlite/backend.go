package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/sqlstore"
	driver "modernc.org/sqlite"
)

const (
	// pragmas of each connection. The short busy timeout is for SQLite's own
	// wait; the long one is kept by this package, which can stop when its
	// caller gives up and wakes up sooner than SQLite's back-off does.
	pragmas      = "_pragma=busy_timeout(20)&_pragma=foreign_keys(1)&_pragma=synchronous(FULL)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-8000)"
	readPragmas  = "_pragma=busy_timeout(20)&_pragma=query_only(1)&_pragma=cache_size(-4000)"
	defaultReads = 4
)

// backend is one file: a connection for writing, some for reading and one that
// watches for commits of other processes.
type backend struct {
	writes *sql.DB
	reads  *sql.DB // nil in memory: everything goes through the writer
	pool   *readPool
	watch  *sql.Conn
	busy   time.Duration

	begin   string        // begins a transaction
	done    func()        // called when it is closed; nil = nothing is
	turn    chan struct{} // held by whoever uses the writing connection
	writer  *writer
	watchMu sync.Mutex
	commits atomic.Int64
	closing sync.Once
	closed  chan struct{}
}

// errClosed is what a store that was closed returns.
var errClosed = agent.Errorf(agent.CodeUnavailable, "sqlite store: it was closed; open it again")

func openFile(ctx context.Context, path string, o Options) (*backend, error) {
	query := "_txlock=immediate&" + pragmas
	if o.Relaxed {
		query = strings.Replace(query, "synchronous(FULL)", "synchronous(NORMAL)", 1)
	}
	writes, err := sql.Open("sqlite", fileURI(path, query))
	if err != nil {
		return nil, err
	}
	b := newBackend(writes, o)
	if err := b.start(ctx, `PRAGMA journal_mode = WAL`); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b.withReads(ctx, fileURI(path, readPragmas), o)
}

func (b *backend) withReads(ctx context.Context, uri string, o Options) (_ *backend, err error) {
	if b.reads, err = sql.Open("sqlite", uri); err != nil {
		_ = b.Close()
		return nil, err
	}
	n := o.ReadConnections
	if n <= 0 {
		n = defaultReads
	}
	b.pool = &readPool{db: b.reads}
	b.reads.SetMaxOpenConns(n + 1)
	b.reads.SetMaxIdleConns(n + 1)
	if b.watch, err = b.reads.Conn(ctx); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

// fasterSync makes commits wait for a file's data and size only, as SQLite
// does everywhere but in this driver's default: as durable, and about twice as
// fast. Where the system has no such call, nothing changes.
var fasterSync = sync.OnceFunc(func() { _, _ = driver.Fdatasync(true) })

func newBackend(writes *sql.DB, o Options) *backend {
	fasterSync()
	writes.SetMaxOpenConns(1)
	writes.SetMaxIdleConns(1)
	b := &backend{writes: writes, busy: o.BusyTimeout, begin: `BEGIN IMMEDIATE`, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	if b.busy <= 0 {
		b.busy = DefaultBusyTimeout
	}
	return b
}

// start connects the writer and runs a first statement, waiting for locks: the
// change to write-ahead logging needs the file for itself for a moment.
func (b *backend) start(ctx context.Context, first string) error {
	return b.patiently(ctx, func() error {
		if err := b.connect(); err != nil || first == "" {
			return err
		}
		var mode string
		return b.writer.conn.QueryRowContext(context.WithoutCancel(ctx), first).Scan(&mode)
	})
}

// connect makes the writing connection if there is none.
func (b *backend) connect() error {
	if b.writer != nil {
		return nil
	}
	conn, err := b.writes.Conn(context.Background())
	if err != nil {
		return err
	}
	b.writer = &writer{conn: conn, stmts: map[string]*sql.Stmt{}}
	return nil
}

// patiently repeats f while the file is locked, until ctx ends or nobody has
// committed for the busy timeout: a file into which many write is busy, not held.
func (b *backend) patiently(ctx context.Context, f func() error) error {
	var deadline time.Time
	var seen int64
	for {
		err := f()
		if !isBusy(err) {
			return err
		}
		if now := time.Now(); now.After(deadline) {
			version := b.version()
			if version == seen && !deadline.IsZero() {
				return fmt.Errorf("locked for %s: %w", b.busy, err)
			}
			deadline, seen = now.Add(b.busy), version
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond + rand.N(4*time.Millisecond)):
		}
	}
}

// version is a number that changes when others commit.
func (b *backend) version() (n int64) {
	if b.writer != nil {
		_ = b.writer.conn.QueryRowContext(context.Background(), `PRAGMA data_version`).Scan(&n)
	}
	return n
}

// Begin waits for the writing connection and for SQLite's write lock.
func (b *backend) Begin(ctx context.Context) (sqlstore.Tx, error) {
	select {
	case b.turn <- struct{}{}:
	case <-b.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	err := b.patiently(ctx, func() error {
		if err := b.connect(); err != nil {
			return err
		}
		_, err := b.writer.ExecContext(context.Background(), b.begin)
		return err
	})
	if err != nil {
		if !isBusy(err) && ctx.Err() == nil {
			b.disconnect()
		}
		<-b.turn
		return nil, err
	}
	return &tx{writer: b.writer, b: b}, nil
}

// disconnect gives up a writing connection in an unknown state.
func (b *backend) disconnect() {
	if b.writer == nil {
		return
	}
	for _, stmt := range b.writer.stmts {
		_ = stmt.Close()
	}
	_ = b.writer.conn.Close()
	b.writer = nil
}

// Read runs f on a connection for reading.
func (b *backend) Read(ctx context.Context, f func(sqlstore.Queryer) error) error {
	if b.reads == nil {
		tx, err := b.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return f(tx)
	}
	if b.isClosed() {
		return errClosed
	}
	err := b.patiently(ctx, func() error { return f(b.pool) })
	if err != nil && b.isClosed() {
		return errClosed
	}
	return err
}

func (b *backend) isClosed() bool {
	select {
	case <-b.closed:
		return true
	default:
		return false
	}
}

// Changed adds this process's commits to what SQLite counts on a connection
// that never writes, so the number grows with every commit of anyone.
func (b *backend) Changed(ctx context.Context) (int64, error) {
	own := b.commits.Load()
	if b.watch == nil {
		return own, nil
	}
	b.watchMu.Lock()
	defer b.watchMu.Unlock()
	if b.isClosed() {
		return 0, errClosed
	}
	var version int64
	err := b.patiently(ctx, func() error {
		return b.watch.QueryRowContext(context.WithoutCancel(ctx), `PRAGMA data_version`).Scan(&version)
	})
	return own + version, err
}

// Close waits for the transaction that runs and ends all connections. A second
// Close does nothing.
func (b *backend) Close() error {
	var err error
	b.closing.Do(func() { err = b.close() })
	return err
}

func (b *backend) close() error {
	b.turn <- struct{}{}
	close(b.closed)
	b.disconnect()
	err := b.writes.Close()
	b.watchMu.Lock()
	defer b.watchMu.Unlock()
	if b.watch != nil {
		err = errors.Join(err, b.watch.Close())
	}
	if b.reads != nil {
		err = errors.Join(err, b.reads.Close())
	}
	if b.done != nil {
		b.done()
	}
	return err
}

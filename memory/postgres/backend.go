package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/sqlstore"
)

// backend is a database: connections for writing and, so that writers that wait
// for each other do not stop readers, others for reading.
type backend struct {
	name   string
	writes *sql.DB
	reads  *sql.DB
	most   int // connections in one of the two

	// inUse is held, shared, by whoever uses a connection; Close takes it alone.
	inUse  sync.RWMutex
	closed bool
}

func newBackend(p place) *backend {
	p.config.DialFunc = (&net.Dialer{
		Timeout:         p.config.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 8, Count: 4},
		Control:         func(_, _ string, c syscall.RawConn) error { return boundSilence(c) },
	}).DialContext
	b := &backend{name: p.name, most: max(1, p.maxConnections/2)}
	b.writes = pool(p.config, b.most)
	b.reads = pool(p.config, max(1, p.maxConnections-b.most))
	return b
}

// silence is how long a server may leave what was sent to it unacknowledged until its
// connection counts as lost: a host that vanished, or a link that drops everything.
const silence = 10 * time.Second

func pool(config *pgx.ConnConfig, n int) *sql.DB {
	db := sql.OpenDB(connector{stdlib.GetConnector(*config)})
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

// enter marks a connection as in use until the result is called.
func (b *backend) enter() (func(), error) {
	b.inUse.RLock()
	if b.closed {
		b.inUse.RUnlock()
		return nil, agent.Errorf(agent.CodeUnavailable, "postgres store %s was closed; open it again", b.name)
	}
	return b.inUse.RUnlock, nil
}

type tx struct {
	*sql.Conn
	wire  *wire
	began time.Time
	leave func()
	done  bool
}

// Begin takes a connection and begins on it. The first lock is waited for later.
func (b *backend) Begin(ctx context.Context) (sqlstore.Tx, error) {
	leave, err := b.enter()
	if err != nil {
		return nil, err
	}
	// Connections may have died in the pool, all of them when the server was
	// restarted. Nothing was sent yet, so the next one is as good.
	for try := 0; ; try++ {
		t, err := b.begin(ctx)
		if err == nil {
			t.leave = leave
			return t, nil
		}
		if try == b.most || !broken(err) || ctx.Err() != nil {
			leave()
			return nil, err
		}
		forgetIdle(b.writes, b.most)
	}
}

// forgetIdle closes the connections that nobody uses: they were probably lost together.
func forgetIdle(db *sql.DB, keep int) {
	db.SetMaxIdleConns(0)
	db.SetMaxIdleConns(keep)
}

func (b *backend) begin(ctx context.Context) (*tx, error) {
	conn, err := b.writes.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &tx{Conn: conn}
	err = conn.Raw(func(c any) (err error) {
		t.wire = c.(*wire) // what the connector makes
		t.began, err = t.wire.begin(ctx)
		return err
	})
	if err != nil {
		// It may be in any state.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
		return nil, err
	}
	return t, nil
}

// Now is when the transaction began.
func (t *tx) Now() time.Time { return t.began }

// Commit makes the transaction durable.
func (t *tx) Commit() error {
	err := t.wire.commit()
	t.Rollback()
	return err
}

// Rollback undoes what was not committed and gives the connection back. One in
// an unknown state is closed, which releases its locks.
func (t *tx) Rollback() {
	if t.done {
		return
	}
	t.done = true
	_ = t.Raw(func(any) error { return t.wire.end() })
	_ = t.Close()
	t.leave()
}

// Read runs f on connections for reading.
func (b *backend) Read(ctx context.Context, f func(sqlstore.Queryer) error) error {
	leave, err := b.enter()
	if err != nil {
		return err
	}
	defer leave()
	for try := 0; ; try++ {
		err := f(b.reads)
		if try == b.most || !broken(err) || ctx.Err() != nil {
			return err
		}
		forgetIdle(b.reads, b.reads.Stats().MaxOpenConnections)
	}
}

// Changed is the number of commits. It is read from rows that each commit
// counts in, so it differs exactly when somebody committed: a sequence would
// move before the commit is seen, the server's own counters with every other
// database's commits too, and NOTIFY makes all commits wait for each other.
func (b *backend) Changed(ctx context.Context) (n int64, err error) {
	err = b.Read(ctx, func(q sqlstore.Queryer) error {
		return q.QueryRowContext(ctx, `SELECT COALESCE(SUM(n), 0)::bigint FROM changes`).Scan(&n)
	})
	return n, err
}

// Now is the database's clock.
func (b *backend) Now(ctx context.Context) (time.Time, error) {
	var ms int64
	err := b.Read(ctx, func(q sqlstore.Queryer) error { return q.QueryRowContext(ctx, clockSQL).Scan(&ms) })
	return time.UnixMilli(ms), err
}

// Close waits for what runs and ends all connections. A second Close does nothing.
func (b *backend) Close() error {
	b.inUse.Lock()
	defer b.inUse.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	return errors.Join(b.writes.Close(), b.reads.Close())
}

// broken reports whether a connection that had been made was lost. A connection
// that cannot be made is another thing: trying again at once does not help.
func broken(err error) bool {
	var connect *pgconn.ConnectError
	return lost(err) && !errors.As(err, &connect)
}

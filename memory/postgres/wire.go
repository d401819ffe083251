package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// wire is a connection. In a transaction it collects writes and sends them
// together before the next query, or with the commit: an operation costs a few
// round trips to the server, however many rows it writes. Their errors are
// reported by what sends them.
type wire struct {
	*stdlib.Conn
	writing bool
	queued  pgx.Batch
	wrote   bool
	// bound ends a transaction whose server does not answer any more.
	bound  context.Context
	cancel context.CancelFunc
}

const (
	// beginSQL also reads the clock.
	beginSQL = `BEGIN ISOLATION LEVEL READ COMMITTED; ` + clockSQL
	clockSQL = `SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint`
	countSQL = `UPDATE changes SET n = n + 1 WHERE shard = $1`
	shards   = 64

	// transactionTimeout bounds a transaction; waits for locks end sooner.
	transactionTimeout = 2 * time.Minute
	rollbackTimeout    = 5 * time.Second
)

var errRolledBack = errors.New("the server rolled the transaction back at its commit")

// begin starts a transaction and returns the database's time.
func (w *wire) begin(ctx context.Context) (time.Time, error) {
	results, err := w.Conn.Conn().PgConn().Exec(ctx, beginSQL).ReadAll()
	if err != nil {
		return time.Time{}, err
	}
	ms, err := strconv.ParseInt(string(results[1].Rows[0][0]), 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	w.writing, w.wrote = true, false
	w.bound, w.cancel = context.WithTimeout(context.Background(), transactionTimeout)
	return time.UnixMilli(ms), nil
}

// context is ctx, bounded if it has no end.
func (w *wire) context(ctx context.Context) context.Context {
	if w.writing && ctx.Done() == nil {
		return w.bound
	}
	return ctx
}

// ExecContext implements driver.ExecerContext.
func (w *wire) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	ctx = w.context(ctx)
	if w.writing && len(args) > 0 {
		values := make([]any, len(args))
		for i, a := range args {
			values[i] = a.Value
		}
		w.queued.Queue(query, values...)
		w.wrote = true
		return driver.ResultNoRows, nil
	}
	if err := w.flush(ctx); err != nil {
		return nil, err
	}
	w.wrote = w.wrote || !strings.HasPrefix(query, "SELECT")
	return w.Conn.ExecContext(ctx, query, args)
}

// QueryContext implements driver.QueryerContext.
func (w *wire) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ctx = w.context(ctx)
	if err := w.flush(ctx); err != nil {
		return nil, err
	}
	return w.Conn.QueryContext(ctx, query, args)
}

func (w *wire) flush(ctx context.Context) error {
	if w.queued.Len() == 0 {
		return nil
	}
	batch := w.queued
	w.queued = pgx.Batch{}
	return w.Conn.Conn().SendBatch(ctx, &batch).Close()
}

// commit sends the rest, counts the change and commits, in one round trip.
func (w *wire) commit() error {
	conn := w.Conn.Conn()
	if !w.wrote {
		tag, err := conn.Exec(w.bound, `COMMIT`)
		return committed(tag.String(), err)
	}
	batch := w.queued
	w.queued = pgx.Batch{}
	batch.Queue(countSQL, int32(conn.PgConn().PID()%shards))
	batch.Queue(`COMMIT`)
	results := conn.SendBatch(w.bound, &batch)
	var err error
	tag := ""
	for range batch.Len() {
		t, e := results.Exec()
		tag = t.String()
		if err = e; err != nil {
			break
		}
	}
	return committed(tag, errors.Join(err, results.Close()))
}

// committed is the error of a commit. Without an answer of the server nobody
// knows whether it took place.
func committed(tag string, err error) error {
	switch {
	case err != nil && code(err) == "":
		return &unknownError{err}
	case err == nil && tag != "COMMIT":
		return errRolledBack
	}
	return err
}

// end forgets the transaction; a connection whose transaction is not over is
// rolled back or reported as bad.
func (w *wire) end() error {
	conn := w.Conn.Conn()
	w.writing, w.queued = false, pgx.Batch{}
	w.cancel()
	if conn.IsClosed() {
		return driver.ErrBadConn
	}
	if conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, `ROLLBACK`); err != nil {
		return driver.ErrBadConn
	}
	return nil
}

// CheckNamedValue implements driver.NamedValueChecker. PostgreSQL's text holds
// neither NUL nor anything but UTF-8; what a caller passes of that kind is no
// error of the database, it is a name that does not exist.
func (w *wire) CheckNamedValue(v *driver.NamedValue) error {
	if s, ok := v.Value.(string); ok && (strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s)) {
		v.Value = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	return w.Conn.CheckNamedValue(v)
}

type connector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn.(*stdlib.Conn)}, nil // what stdlib's connector makes
}

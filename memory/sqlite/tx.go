package sqlite

import (
	"context"
	"database/sql"
)

// writer is the writing connection with its prepared statements. database/sql's
// own transactions would prepare each statement anew every time.
type writer struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

// prepared returns a statement for a query, or nil for a script.
func (w *writer) prepared(ctx context.Context, query string, args []any) (*sql.Stmt, error) {
	if stmt := w.stmts[query]; stmt != nil {
		return stmt, nil
	}
	if len(args) == 0 && len(query) > maxShort {
		return nil, nil
	}
	stmt, err := w.conn.PrepareContext(ctx, query)
	if err == nil {
		w.stmts[query] = stmt
	}
	return stmt, err
}

// maxShort tells a statement without arguments from a migration's script.
const maxShort = 200

func (w *writer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := w.prepared(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if stmt == nil {
		return w.conn.ExecContext(ctx, query, args...)
	}
	return stmt.ExecContext(ctx, args...)
}

func (w *writer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := w.prepared(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if stmt == nil {
		return w.conn.QueryContext(ctx, query, args...)
	}
	return stmt.QueryContext(ctx, args...)
}

func (w *writer) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := w.prepared(ctx, query, args)
	if err != nil || stmt == nil {
		// A statement that cannot be prepared reports that when the row is read.
		return w.conn.QueryRowContext(ctx, query, args...)
	}
	return stmt.QueryRowContext(ctx, args...)
}

type tx struct {
	*writer
	b    *backend
	done bool
}

// Commit makes the transaction durable. After an error it is rolled back.
func (t *tx) Commit() error {
	_, err := t.ExecContext(context.Background(), `COMMIT`)
	if err != nil {
		t.Rollback()
		return err
	}
	t.done = true
	t.b.commits.Add(1)
	<-t.b.turn
	return nil
}

// Rollback undoes what was not committed and always gives the lock back: when
// even ROLLBACK fails, the connection is closed, which releases it.
func (t *tx) Rollback() {
	if t.done {
		return
	}
	t.done = true
	// Some errors (a full disk) make SQLite roll back by itself; then ROLLBACK
	// fails with "no transaction is active". A new connection is right for both.
	if _, err := t.ExecContext(context.Background(), `ROLLBACK`); err != nil {
		t.b.disconnect()
	}
	<-t.b.turn
}

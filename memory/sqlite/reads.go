package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// readPool is the connections for reading with their prepared statements. The
// set of queries is fixed by the program, so it does not grow without bound.
//
// A query of a local file is over sooner than a goroutine that could interrupt
// it is set up, so a caller that gives up is noticed between queries only.
type readPool struct {
	db    *sql.DB
	stmts sync.Map
}

func (p *readPool) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if stmt, ok := p.stmts.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := p.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if first, loaded := p.stmts.LoadOrStore(query, stmt); loaded {
		_ = stmt.Close()
		return first.(*sql.Stmt), nil
	}
	return stmt, nil
}

func (p *readPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return p.db.ExecContext(ctx, query, args...)
}

func (p *readPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := p.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.WithoutCancel(ctx), args...)
}

func (p *readPool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := p.prepared(ctx, query)
	if err != nil {
		// The same error is reported when the row is read.
		return p.db.QueryRowContext(ctx, query, args...)
	}
	return stmt.QueryRowContext(context.WithoutCancel(ctx), args...)
}

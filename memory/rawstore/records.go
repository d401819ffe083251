package rawstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/memory"
)

// records are the rows inside a transaction.
type records struct {
	ctx   context.Context
	tx    *sql.Tx
	s     *SQL
	wrote bool
}

// bind writes placeholders as the database wants them.
func (d *Dialect) bind(query string) string {
	if !d.Numbered {
		return query
	}
	var b strings.Builder
	n := 0
	for _, c := range query {
		if c == '?' {
			n++
			b.WriteString("$" + strconv.Itoa(n))
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

func (r *records) exec(query string, args ...any) error {
	result, err := r.tx.ExecContext(r.ctx, r.s.d.bind(query), args...)
	if err != nil {
		return r.s.explain(err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		r.wrote = true
	}
	return nil
}

func (r *records) number(query string, args ...any) (int, error) {
	var n int
	err := r.tx.QueryRowContext(r.ctx, r.s.d.bind(query), args...).Scan(&n)
	return n, r.s.explain(err)
}

// each calls f for every row of a query.
func (r *records) each(query string, f func(*sql.Rows) error, args ...any) error {
	rows, err := r.tx.QueryContext(r.ctx, r.s.d.bind(query), args...)
	if err != nil {
		return r.s.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return r.s.explain(err)
		}
	}
	return r.s.explain(rows.Err())
}

// Keys are sorted here: databases sort by their locale.
func (r *records) Keys() ([]string, error) {
	var keys []string
	err := r.each(`SELECT key FROM memory_items WHERE ord = 1`, func(rows *sql.Rows) error {
		var key string
		if err := rows.Scan(&key); err != nil {
			return err
		}
		keys = append(keys, key)
		return nil
	})
	slices.Sort(keys)
	return keys, err
}

// Len needs no count, because ord is dense.
func (r *records) Len(key string) (int, error) {
	return r.number(`SELECT COALESCE(MAX(ord), 0) FROM memory_items WHERE key = ?`, key)
}

func (r *records) Get(key string) ([]memory.Record, error) {
	var out []memory.Record
	err := r.each(`SELECT id, body FROM memory_items WHERE key = ? ORDER BY ord`, func(rows *sql.Rows) error {
		var id sql.NullString
		var body string
		if err := rows.Scan(&id, &body); err != nil {
			return err
		}
		out = append(out, memory.Record{ID: id.String, Body: json.RawMessage(body)})
		return nil
	}, key)
	return out, err
}

func (r *records) Put(key string, items []memory.Record) error {
	if err := r.exec(`DELETE FROM memory_items WHERE key = ?`, key); err != nil {
		return err
	}
	return r.insert(key, 0, items)
}

func (r *records) Append(key string, items []memory.Record) (int, error) {
	added, err := memory.NewRecords(key, items, func(id string) (json.RawMessage, bool, error) {
		var body string
		err := r.tx.QueryRowContext(r.ctx, r.s.d.bind(`SELECT body FROM memory_items WHERE key = ? AND id = ?`), key, id).Scan(&body)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, false, nil
		}
		return json.RawMessage(body), err == nil, r.s.explain(err)
	})
	if err != nil || len(added) == 0 {
		return 0, err
	}
	n, err := r.Len(key)
	if err != nil {
		return 0, err
	}
	return len(added), r.insert(key, n, added)
}

// insert adds rows behind the first n.
func (r *records) insert(key string, n int, items []memory.Record) error {
	for i, item := range items {
		id := sql.NullString{String: item.ID, Valid: item.ID != ""}
		err := r.exec(`INSERT INTO memory_items (key, ord, id, body) VALUES (?, ?, ?, ?)`, key, n+i+1, id, string(item.Body))
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *records) Clear() error { return r.exec(`DELETE FROM memory_items`) }

package rows

import (
	"context"
	"database/sql"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Rower is what units and readers have in common.
type Rower interface {
	Row(query string, args ...any) *sql.Row
	Rows(query string, args ...any) (*sql.Rows, error)
}

// Reader runs queries for reading.
type Reader struct {
	ctx context.Context
	s   *Store
	q   Queryer
}

// Row runs a query for one row.
func (r *Reader) Row(query string, args ...any) *sql.Row {
	return r.q.QueryRowContext(r.ctx, r.s.sql.sql(query), args...)
}

// Rows runs a query.
func (r *Reader) Rows(query string, args ...any) (*sql.Rows, error) {
	return r.q.QueryContext(r.ctx, r.s.sql.sql(query), args...)
}

// Exists reports a missing thread as CodeNotFound.
func (r *Reader) Exists(threadID string) error {
	var one int
	err := r.Row(`SELECT 1 FROM threads WHERE id = ?`, threadID).Scan(&one)
	if NoRows(err) {
		return NoThread(threadID)
	}
	return err
}

// Streamed joins the pieces of a step's text. A character cut off at the end of
// what arrived is left out as a replacement character.
func Streamed(q Rower, turnID string, step int) (text, reasoning string, err error) {
	rows, err := q.Rows(`SELECT body, reasoning FROM chunks WHERE turn_id = ? AND step = ? ORDER BY n`, turnID, step)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = rows.Close() }()
	var body, thought strings.Builder
	for rows.Next() {
		var b, r []byte
		if err := rows.Scan(&b, &r); err != nil {
			return "", "", err
		}
		body.Write(b)
		thought.Write(r)
	}
	return Clean(body.String()), Clean(thought.String()), rows.Err()
}

// List runs a query and turns each row into a value. When there is none, a
// thread that does not exist is reported, not an empty list.
func List[R, V any](q *Reader, threadID string, targets func(*R) []any, view func(*R) (V, error), query string, args ...any) ([]V, error) {
	found, err := Find(q, targets, nil, query, args...)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && threadID != "" {
		return nil, q.Exists(threadID)
	}
	values := make([]V, 0, len(found))
	for _, f := range found {
		v, err := view(f)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// Thread is the thread of a row, with its configuration.
func (r *Reader) Thread(t *Thread) (agent.Thread, error) {
	t.Loaded()
	c, err := r.s.Config(r, t.ConfigHash)
	t.Config = c
	return t.Thread, err
}

// Listed is a thread in a list: one whose configuration cannot be read does not
// hide the others, and has none.
func (r *Reader) Listed(t *Thread) (agent.Thread, error) {
	v, err := r.Thread(t)
	if memory.IsDamaged(err) {
		v.Config, err = agent.SpecialistAgentConfig{Name: v.AgentType}, nil
	}
	return v, err
}

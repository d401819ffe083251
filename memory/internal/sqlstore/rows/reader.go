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
	One(query string, args ...any) One
	query(query string, args ...any) (*sql.Rows, error)
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

// One runs a query for a row that may be missing.
func (r *Reader) One(query string, args ...any) One { return One{r.Row(query, args...)} }

func (r *Reader) query(query string, args ...any) (*sql.Rows, error) {
	return r.q.QueryContext(r.ctx, r.s.sql.sql(query), args...)
}

// Exists reports a missing thread as CodeNotFound.
func (r *Reader) Exists(threadID string) {
	if !r.One(`SELECT 1 FROM threads WHERE id = ?`, threadID).Into(new(int)) {
		Check(NoThread(threadID))
	}
}

// Reading is Read of one value.
func Reading[T any](ctx context.Context, s *Store, f func(*Reader) T) (v T, err error) {
	err = s.Read(ctx, func(q *Reader) { v = f(q) })
	return v, err
}

// Streamed joins the pieces of a step's text. A character cut off at the end of
// what arrived is left out as a replacement character.
func Streamed(q Rower, turnID string, step int) (text, reasoning string) {
	type piece struct{ text, reasoning []byte }
	var body, thought strings.Builder
	for _, p := range Find(q, func(p *piece) []any { return []any{&p.text, &p.reasoning} }, nil, `SELECT body, reasoning FROM chunks WHERE turn_id = ? AND step = ? ORDER BY n`, turnID, step) {
		body.Write(p.text)
		thought.Write(p.reasoning)
	}
	return Clean(body.String()), Clean(thought.String())
}

// List runs a query and turns each row into a value. When there is none, a
// thread that does not exist is reported, not an empty list.
func List[R, V any](q *Reader, threadID string, targets func(*R) []any, view func(*R) V, query string, args ...any) []V {
	found := Find(q, targets, nil, query, args...)
	if len(found) == 0 && threadID != "" {
		q.Exists(threadID)
		return nil
	}
	values := make([]V, 0, len(found))
	for _, f := range found {
		values = append(values, view(f))
	}
	return values
}

// Thread is the thread of a row, with its configuration.
func (r *Reader) Thread(t *Thread) agent.Thread {
	t.Loaded()
	t.Config = r.s.Config(r, t.ConfigHash)
	return t.Thread
}

// Listed is a thread in a list: one whose configuration cannot be read does not
// hide the others, and has none.
func (r *Reader) Listed(t *Thread) agent.Thread {
	var v agent.Thread
	err := Caught(func() { v = r.Thread(t) })
	if memory.IsDamaged(err) {
		t.Config = agent.SpecialistAgentConfig{Name: t.AgentType}
		return t.Thread
	}
	Check(err)
	return v
}

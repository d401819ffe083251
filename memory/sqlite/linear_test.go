package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/memory/internal/sqlstore"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/verify"
)

// counted is a backend that counts the statements of its users.
type counted struct {
	*backend
	n atomic.Int64
}

func (c *counted) Begin(ctx context.Context) (sqlstore.Tx, error) {
	tx, err := c.backend.Begin(ctx)
	return &countedTx{tx, &c.n}, err
}

func (c *counted) Read(ctx context.Context, f func(sqlstore.Queryer) error) error {
	return c.backend.Read(ctx, func(q sqlstore.Queryer) error { c.n.Add(1); return f(q) })
}

type countedTx struct {
	sqlstore.Tx
	n *atomic.Int64
}

func (c *countedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.n.Add(1)
	return c.Tx.QueryContext(ctx, query, args...)
}

func (c *countedTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	c.n.Add(1)
	return c.Tx.QueryRowContext(ctx, query, args...)
}

// TestACheckIsLinear: a check asks as many statements of a long thread as of a
// short one (but for its pages), and none of an audit's statements goes through
// all rows of a thread once more for each of its rows.
func TestACheckIsLinear(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "spool.db")
	file := memorytest.Must(openFile(ctx, path, Options{}))(t)
	first, err := open(ctx, file, path, Options{}) // makes the tables
	require.NoError(t, err)
	t.Cleanup(func() { _ = first.Close() })
	b := &counted{backend: file}
	s := memorytest.Must(sqlstore.New(ctx, b, sqlstore.Dialect{
		Name: "sqlite", Schema: memorytest.Must(fs.Sub(schemaFiles, "schema"))(t), MapError: mapError(path), TableExists: `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?`,
	}, sqlstore.Options{}))(t)
	cost := func(turns int) int64 {
		t.Helper()
		for i := range turns {
			memorytest.Must(s.Send(ctx, memorytest.Request("s", fmt.Sprint(turns, ".", i))))(t)
		}
		require.NoError(t, memorytest.RunTurns(ctx, s, "s/default"))
		before := b.n.Load()
		report, err := verify.Check(ctx, s, verify.Options{})
		if err != nil || !report.OK {
			t.Fatal(report, err)
		}
		return b.n.Load() - before
	}
	few, many := cost(3), cost(30)
	t.Logf("%d statements for 3 turns, %d for 33", few, many)
	if many > few+10 {
		t.Errorf("a check of 3 turns takes %d statements, of 33 turns %d", few, many)
	}
	for query := range file.writer.stmts {
		if !strings.Contains(query, "EXISTS (") && !strings.Contains(query, "(SELECT") || !strings.HasPrefix(query, "SELECT") {
			continue
		}
		inner := correlated(t, file, query)
		for _, detail := range inner {
			if strings.Contains(detail, "SCAN") || strings.HasSuffix(detail, "(thread_id=?)") {
				t.Errorf("for each row: %s\nof %s", detail, query)
			}
		}
	}
}

// correlated are the steps of a statement that run once for each row of another.
func correlated(t *testing.T, b *backend, query string) []string {
	t.Helper()
	rows, err := b.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	inside, found := map[int]bool{}, []string(nil)
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		if inside[id] = inside[parent] || strings.HasPrefix(detail, "CORRELATED"); inside[id] {
			found = append(found, detail)
		}
	}
	require.NoError(t, rows.Err())
	return found
}

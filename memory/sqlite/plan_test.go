package sqlite

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/memory/memorytest"
)

// Statements are what stores have asked SQLite.
type Statements map[string]bool

// Open is Open of a store whose statements are kept when it is closed.
func (all Statements) Open(ctx context.Context, path string, o Options) (*Store, error) {
	err := makeFile(path)
	if err != nil {
		return nil, err
	}
	b, err := openFile(ctx, path, o)
	if err != nil {
		return nil, err
	}
	first := b.writer
	b.done = func() {
		for query := range first.stmts {
			all[query] = true
		}
		b.pool.stmts.Range(func(query, _ any) bool {
			all[query.(string)] = true
			return true
		})
	}
	return open(ctx, b, path, o)
}

// scans are the steps of a plan that read a table or an index from its beginning to its end.
var scans = regexp.MustCompile(`^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?$`)

// CheckPlans asks SQLite how it would run each statement: none reads all of a table that
// grows with conversations.
func (all Statements) CheckPlans(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "spool.db")
	s, err := Open(ctx, path, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	b, err := openFile(ctx, path, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	n := 0
	for query := range all {
		if !memorytest.HasPlan(query) {
			continue
		}
		n++
		for _, detail := range planOf(t, b, query) {
			// What a statement makes by itself, with a name of its own, is small.
			if m := scans.FindStringSubmatch(detail); m != nil && !strings.Contains(query, m[1]+" (id) AS (") && !strings.Contains(query, " LIMIT 1000) "+m[1]+" ") && m[1] != "sqlite_master" && !memorytest.MayScan(query, m[2]) {
				t.Errorf("%s\nof %s", detail, query)
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d statements", n)
	}
}

// planOf is how SQLite would run a statement, step by step.
func planOf(t *testing.T, b *backend, query string) (steps []string) {
	rows, err := b.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
	require.NoError(t, err, query)
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		steps = append(steps, detail)
	}
	require.NoError(t, rows.Err(), query)
	return steps
}

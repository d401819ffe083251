//go:build postgres

package postgres_test

import (
	"context"
	"database/sql"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sqlite"
)

// TestSchemaIsThatOfSQLite: the same statements run on both, so both have the
// same tables with the same columns and indexes. A migration of one needs its
// like in the other.
func TestSchemaIsThatOfSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	s := memorytest.Must(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	t.Cleanup(func() { _ = s.Close() })
	db := memorytest.Must(sql.Open("sqlite", "file:"+path))(t)
	t.Cleanup(func() { _ = db.Close() })
	want := map[string]bool{}
	rows := memorytest.Must(db.QueryContext(t.Context(), `SELECT 'column ' || m.name || '.' || c.name || ' not null ' || (c."notnull" OR c.pk > 0) FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'
		UNION ALL SELECT 'index ' || tbl_name || '.' || name FROM sqlite_master WHERE type = 'index' AND name NOT LIKE 'sqlite_%'
		UNION ALL SELECT 'version ' || version FROM schema_version`))(t)
	defer rows.Close()
	for rows.Next() {
		var what string
		require.NoError(t, rows.Scan(&what))
		want[what] = true
	}
	require.NoError(t, rows.Err())
	got := columns(t)
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if !got[what] {
			t.Errorf("PostgreSQL lacks %s", what)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(got)) {
		if !want[what] {
			t.Errorf("SQLite lacks %s", what)
		}
	}
}

// columns lists what a new store on PostgreSQL has, but for the table changes,
// which SQLite does not need.
func columns(t *testing.T) map[string]bool {
	t.Helper()
	url := pgtest.Database(t)
	mustOpen(t, url)
	conn := memorytest.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(context.Background())
	rows := memorytest.Must(conn.Query(t.Context(), `
		SELECT 'column ' || table_name || '.' || column_name || ' not null ' || CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END
			FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'changes'
		UNION ALL SELECT 'index ' || tablename || '.' || indexname FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE '%\_pkey'
		UNION ALL SELECT 'version ' || version FROM schema_version`))(t)
	got := map[string]bool{}
	all := memorytest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	for _, what := range all {
		got[what] = true
	}
	return got
}

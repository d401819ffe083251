//go:build postgres

package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore"
	"github.com/spool-agents/spool/memory/memorytest"
)

func reopen(t *testing.T, url string, schema fs.FS) (*Store, error) {
	t.Helper()
	s, err := Open(t.Context(), url, Options{schema: schema, MaxConnections: 4})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func send(ctx context.Context, s *Store, id string) error {
	_, err := s.Send(ctx, memorytest.Request("s", id))
	return err
}

func TestMigrations(t *testing.T) {
	url := pgtest.Database(t)
	memorytest.RunMigrations(t, schemaFiles, func(schema fs.FS) (memory.ConversationMemoryStore, error) {
		return reopen(t, url, schema)
	})
}

// TestFault_C9_FailedTransactionReleasesItsLock: an error and a panic inside a
// transaction leave nothing behind and let the next writer in.
func TestFault_C9_FailedTransactionReleasesItsLock(t *testing.T) {
	url := pgtest.Database(t)
	s := memorytest.Must(reopen(t, url, nil))(t)
	require.NoError(t, send(t.Context(), s, "first"))
	p := memorytest.Must(parse(url, Options{}))(t)
	b := newBackend(p)
	t.Cleanup(func() { _ = b.Close() })
	for name, fail := range map[string]func(sqlstore.Tx){
		"a failing statement": func(tx sqlstore.Tx) {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO nowhere VALUES ($1)", 1); err != nil {
				t.Error(err) // it is reported by what comes next
			}
			if err := tx.QueryRowContext(t.Context(), "SELECT 1").Scan(new(int)); code(err) != "42P01" {
				t.Errorf("a query after a failed write: %v", err)
			}
		},
		"a failing write before the commit": func(tx sqlstore.Tx) {
			memorytest.Must(tx.ExecContext(t.Context(), "INSERT INTO meta (key, value) VALUES ($1, NULL)", "a"))(t)
			if err := tx.Commit(); code(err) != "23502" {
				t.Errorf("commit: %v", err)
			}
		},
		"a commit of a failed transaction": func(tx sqlstore.Tx) {
			if err := tx.QueryRowContext(t.Context(), "SELECT 1/0").Scan(new(int)); err == nil {
				t.Error("the statement did not fail")
			}
			if err := tx.Commit(); err == nil {
				t.Error("the commit did not fail")
			}
		},
		"a transaction that is gone": func(tx sqlstore.Tx) {
			memorytest.Must(tx.ExecContext(t.Context(), "ROLLBACK"))(t)
		},
		"a panic": func(sqlstore.Tx) { panic("boom") },
	} {
		func() {
			defer func() { _ = recover() }()
			tx, err := b.Begin(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer tx.Rollback()
			require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT id FROM threads FOR UPDATE").Scan(new(string)))
			fail(tx)
		}()
		require.NoError(t, send(t.Context(), s, name))
	}
}

// A newer program adds a column: a store that is open goes on, with what names all
// columns of the table too.
func TestAll_AMigrationBesideAnOpenStore(t *testing.T) {
	url := pgtest.Database(t)
	s := memorytest.Must(reopen(t, url, nil))(t)
	r, err := s.Send(t.Context(), memorytest.Request("s", "m"))
	require.NoError(t, err)
	require.NoError(t, memorytest.RunTurns(t.Context(), s, r.ThreadID))
	for _, column := range []string{"one", "two", "three"} {
		records, err := s.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: r.ThreadID})
		require.NoError(t, err, column)
		require.Contains(t, string(records[0].Rows), `"task_id"`)
		_, err = s.DeleteTree(t.Context(), memory.DeleteRequest{UserID: "u", ThreadID: r.ThreadID})
		require.NoError(t, err, column)
		_, err = s.ImportThreads(t.Context(), memory.ImportRequest{UserID: "u", Threads: records})
		require.NoError(t, err, column)
		_, err = s.Fork(t.Context(), memory.ForkRequest{UserID: "u", ThreadID: r.ThreadID, RequestID: column})
		require.NoError(t, err, column)
		pgtest.Exec(t, url, "ALTER TABLE threads ADD COLUMN "+column+" TEXT NOT NULL DEFAULT ''")
	}
}

// TestMeanings: each state of a server has a code and says what to do.
func TestMeanings(t *testing.T) {
	for state, word := range map[string]string{
		"08006": "cannot be reached", "57P01": "shutting down", "57P02": "shutting down", "57P03": "starting", "53300": "max_connections",
		"25006": "read-only", "53100": "disk is full", "53200": "memory", "55P03": "another transaction", "57014": "cancelled",
		"40P01": "again and again", "40001": "again and again", "28P01": "user, password", "28000": "pg_hba.conf", "3D000": "createdb",
		"42501": "right to create", "58030": "disk", "25P03": "paused", "42P05": "default_query_exec_mode=exec", "26000": "pgbouncer",
	} {
		err := mapError("postgres://h/d")(fmt.Errorf("x: %w", &pgconn.PgError{Code: state, Message: "m"}))
		if agent.CodeOf(err) != agent.CodeUnavailable || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "postgres://h/d") {
			t.Errorf("%s: %s: %v", state, agent.CodeOf(err), err)
		}
	}
	for state, want := range map[string]agent.Code{"XX001": agent.CodeInternal, "22021": agent.CodeInvalid, "42P01": agent.CodeInternal} {
		if err := mapError("s")(&pgconn.PgError{Code: state}); agent.CodeOf(err) != want {
			t.Errorf("%s: %s, want %s", state, agent.CodeOf(err), want)
		}
	}
	if err := mapError("s")(&unknownError{context.DeadlineExceeded}); agent.CodeOf(err) != agent.CodeUnavailable || !strings.Contains(err.Error(), "not known") {
		t.Errorf("an unanswered commit: %v", err)
	}
}

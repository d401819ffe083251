package sqlite

import (
	"context"
	"database/sql"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore"
	"github.com/spool-agents/spool/memory/memorytest"
)

func reopen(t *testing.T, path string, o Options) (*Store, error) {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func send(ctx context.Context, s *Store, id string) error {
	_, err := s.Send(ctx, memory.SendRequest{UserID: "u", SessionID: "s", MessageID: id, Content: agent.Text("hi"), WhenBusy: memory.Queue})
	return err
}

func TestMigrations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	memorytest.RunMigrations(t, schemaFiles, func(schema fs.FS) (memory.ConversationMemoryStore, error) {
		return reopen(t, path, Options{schema: schema})
	})
}

// TestFault_C9_FailedTransactionReleasesItsLock: an error and a panic inside a
// transaction leave nothing behind and let the next writer in.
func TestFault_C9_FailedTransactionReleasesItsLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	s := memorytest.Must(reopen(t, path, Options{}))(t)
	other := memorytest.Must(reopen(t, path, Options{}))(t)
	b := memorytest.Must(openFile(t.Context(), path, Options{}))(t)
	t.Cleanup(func() { _ = b.Close() })
	for name, fail := range map[string]func(sqlstore.Tx){
		"a failing statement": func(tx sqlstore.Tx) {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO meta (key, value) VALUES ('a', NULL)"); err == nil {
				t.Error("the statement did not fail")
			}
		},
		"a statement that cannot be prepared": func(tx sqlstore.Tx) {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO nowhere VALUES (?)", 1); err == nil {
				t.Error("the statement did not fail")
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
			fail(tx)
		}()
		for i, s := range []*Store{s, other} {
			require.NoError(t, send(t.Context(), s, name+string(rune('0'+i))))
		}
	}
	tx := memorytest.Must(b.Begin(t.Context()))(t)
	require.NoError(t, tx.Commit())
	tx.Rollback()
}

// TestDamagedBookkeeping: a store whose own tables about itself were changed is
// refused with what is wrong, not with an error of SQL, and nothing is changed.
func TestDamagedBookkeeping(t *testing.T) {
	for damage, says := range map[string]string{
		`DELETE FROM schema_version`:                               "schema_version does not fit",
		`INSERT INTO schema_version VALUES (1, 0)`:                 "schema_version does not fit",
		`DELETE FROM meta WHERE key = 'store_id'`:                  "its own id is missing",
		`UPDATE schema_version SET version = 99 WHERE version = 1`: "schema_version does not fit",
	} {
		path := filepath.Join(t.TempDir(), "spool.db")
		s := memorytest.Must(Open(t.Context(), path, Options{}))(t)
		require.NoError(t, send(t.Context(), s, "m1"))
		require.NoError(t, s.Store.Close())
		db := memorytest.Must(sql.Open("sqlite", path))(t)
		memorytest.Must(db.ExecContext(t.Context(), damage))(t)
		require.NoError(t, db.Close())
		for range 2 {
			if _, err := reopen(t, path, Options{}); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", damage, err)
			}
		}
	}
}

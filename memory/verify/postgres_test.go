//go:build postgres

package verify_test

import (
	"database/sql"
	"strconv"
	"strings"
	"testing"

	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/postgres"
)

func init() {
	backends = append(backends, backend{"postgres", openPostgres, func(query string) string {
		var b strings.Builder
		for i, part := range strings.Split(query, "?") {
			if i > 0 {
				b.WriteString("$" + strconv.Itoa(i))
			}
			b.WriteString(part)
		}
		return b.String()
	}})
}

// functions are those of SQLite that the plants use.
const functions = `
CREATE FUNCTION json_set(body text, path text, v text) RETURNS text LANGUAGE sql AS $$ SELECT jsonb_set(body::jsonb, ARRAY[substr(path, 3)], to_jsonb(v))::text $$;
CREATE FUNCTION json_set(body text, path text, v bigint) RETURNS text LANGUAGE sql AS $$ SELECT jsonb_set(body::jsonb, ARRAY[substr(path, 3)], to_jsonb(v))::text $$;
CREATE FUNCTION json_set(body text, path text, v json) RETURNS text LANGUAGE sql AS $$ SELECT jsonb_set(body::jsonb, ARRAY[substr(path, 3)], v::jsonb)::text $$;
CREATE FUNCTION json_set(body text, path text, v bigint, path2 text, v2 text) RETURNS text LANGUAGE sql AS $$ SELECT json_set(json_set(body, path, v), path2, v2) $$;
CREATE FUNCTION json_remove(body text, path text) RETURNS text LANGUAGE sql AS $$ SELECT (body::jsonb - substr(path, 3))::text $$;
CREATE FUNCTION json_extract(body text, path text) RETURNS text LANGUAGE sql AS $$ SELECT body::jsonb ->> substr(path, 3) $$;
CREATE FUNCTION json_array_length(body text, path text) RETURNS int LANGUAGE sql AS $$ SELECT COALESCE(jsonb_array_length(body::jsonb -> substr(path, 3)), 0) $$;
`

// database holds all scenes, each in a schema of its own.
var database string

func openPostgres(t *testing.T) (memory.ConversationMemoryStore, *sql.DB) {
	t.Helper()
	if database == "" {
		database = pgtest.Database(t)
	}
	url := pgtest.Schema(t, database)
	pgtest.Exec(t, url, functions)
	s := memorytest.Must(postgres.Open(t.Context(), url, postgres.Options{MaxConnections: 4}))(t)
	raw := memorytest.Must(sql.Open("pgx", url))(t)
	return s, raw
}

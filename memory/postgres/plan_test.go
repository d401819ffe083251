//go:build postgres

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/memory/memorytest"
)

// Statements are what stores have asked PostgreSQL: it traces their connections. The zero value is ready.
type Statements struct {
	mu  sync.Mutex
	all map[string]bool
}

// Open is Open of a store whose statements are kept.
func (s *Statements) Open(ctx context.Context, url string, o Options) (*Store, error) {
	p, err := parse(url, o)
	if err != nil {
		return nil, err
	}
	p.config.Tracer = s
	b := newBackend(p)
	store, err := open(ctx, b, p, o)
	if err != nil {
		_ = b.Close()
	}
	return store, err
}

func (s *Statements) add(query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]bool{}
	}
	s.all[query] = true
}

func (s *Statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.add(d.SQL)
	return ctx
}
func (s *Statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *Statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *Statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	s.add(d.SQL)
}
func (s *Statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// node is a step of a plan.
type node struct {
	Type  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Index string `json:"Index Name"`
	Cond  string `json:"Index Cond"`
	Below []node `json:"Plans"`
}

func (n node) all() (out []node) {
	out = append(out, n)
	for _, below := range n.Below {
		out = append(out, below.all()...)
	}
	return out
}

// CheckPlans asks PostgreSQL how it would run each statement on tables of ten million rows:
// none reads all of a table that grows with conversations.
func (s *Statements) CheckPlans(t *testing.T, url string) {
	ctx := t.Context()
	store, err := Open(ctx, url, Options{}) // makes the tables
	require.NoError(t, err)
	require.NoError(t, store.Close())
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	// A thousand rows whose values all differ are the statistics of ten million.
	rows, err := conn.Query(ctx, `SELECT format('INSERT INTO %I (%s) SELECT %s FROM generate_series(1000, 1999) i', table_name, string_agg(quote_ident(column_name), ','),
		string_agg(CASE data_type WHEN 'text' THEN quote_literal('x') || ' || i' WHEN 'bytea' THEN quote_literal('') ELSE 'i' END, ',')) FROM information_schema.columns
		WHERE table_schema = current_schema() GROUP BY table_name`)
	require.NoError(t, err)
	inserts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `SET session_replication_role = replica; `+strings.Join(inserts, ";")+`; ANALYZE;
		UPDATE pg_class SET reltuples = 1e7 WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r';
		SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off`)
	require.NoError(t, err)
	n := 0
	for query := range s.all {
		if !memorytest.HasPlan(query) {
			continue
		}
		n++
		_, err := conn.Exec(ctx, `PREPARE asked AS `+query)
		require.NoError(t, err, query)
		var args int
		require.NoError(t, conn.QueryRow(ctx, `SELECT coalesce(array_length(parameter_types, 1), 0) FROM pg_prepared_statements WHERE name = 'asked'`).Scan(&args))
		list := strings.TrimSuffix(strings.Repeat("NULL,", args), ",")
		if args > 0 {
			list = "(" + list + ")"
		}
		var text []byte
		require.NoError(t, conn.QueryRow(ctx, `EXPLAIN (FORMAT JSON) EXECUTE asked`+list, pgx.QueryExecModeSimpleProtocol).Scan(&text), query)
		var plans []struct{ Plan node }
		require.NoError(t, json.Unmarshal(text, &plans))
		for _, step := range plans[0].Plan.all() {
			scans := step.Type == "Seq Scan" || step.Index != "" && step.Cond == ""
			if scans && !memorytest.MayScan(query, step.Index) {
				t.Errorf("%s\nof %s", fmt.Sprint(step.Type, " of ", step.Table, " ", step.Index), query)
			}
		}
		_, err = conn.Exec(ctx, `DEALLOCATE asked`)
		require.NoError(t, err)
	}
	if n < 200 {
		t.Errorf("only %d statements", n)
	}
}

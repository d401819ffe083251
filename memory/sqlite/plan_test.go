package sqlite

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// TestNoStatementReadsAWholeLog asks SQLite how it would run each statement that
// turns, delegations, approvals, cancels and readers used: none scans a table that
// grows with conversations, so that reading a window of a long thread, or appending
// to it, does not read the rest.
func TestNoStatementReadsAWholeLog(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "spool.db")
	b := memorytest.Must(openFile(ctx, path, Options{}))(t)
	s := memorytest.Must(open(ctx, b, path, Options{}))(t)
	defer func() { _ = s.Close() }()
	memorytest.Must(s.Send(ctx, memorytest.Request("s", "m")))(t)
	require.NoError(t, memorytest.RunTurns(ctx, s, "s/default"))
	if m, err := s.Messages(ctx, "s/default", 3, 2); err != nil || len(m) != 2 {
		t.Fatalf("%d messages, %v", len(m), err)
	}
	memorytest.Must(s.Events(ctx, "s/default", 3, 2))(t)
	memorytest.Must(s.ToolCalls(ctx, "s/default"))(t)
	readWindow(t, s)
	for _, f := range []memory.ThreadFilter{{UserID: "u"}, {UserID: "u", All: true, Since: time.Now()}, {UserID: "u", SubAgents: true, Limit: 10}, {SessionID: "s"}, {Root: "s/default", All: true}, {Parent: "s/default", All: true}} {
		memorytest.Must(s.Threads(ctx, f))(t)
	}
	memorytest.Must(s.Children(ctx, "s/default"))(t)
	memorytest.Must(s.Overdue(ctx, time.Second, 10))(t)
	memorytest.Must(s.OpenTurns(ctx, memory.OpenTurnFilter{Age: time.Second, After: memory.OpenTurn{TurnID: "t1"}, Limit: 10}))(t)
	if n, err := memorytest.Hammer(ctx, s, "h", 3, time.Now().Add(time.Second), 200); err != nil || n < 200 {
		t.Fatalf("%d operations, %v", n, err)
	}
	// What the program itself makes of small numbers of rows may be scanned.
	scan := regexp.MustCompile(`^SCAN (messages|events|chunks|steps|tool_calls|inbox|turns|threads|tasks|outputs|asks|sessions|configs|[a-z])\b`)
	statements := 0
	explain := func(query string) {
		if verb, _, _ := strings.Cut(strings.TrimSpace(query), " "); verb == "CREATE" || verb == "BEGIN" || verb == "COMMIT" || verb == "ROLLBACK" || verb == "PRAGMA" {
			return
		}
		statements++
		args := make([]any, strings.Count(query, "?"))
		rows, err := b.reads.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			if scan.MatchString(detail) && !strings.HasSuffix(detail, " USING INDEX turns_open") { // which has the open ones only
				t.Errorf("%s\nof %s", detail, query)
			}
		}
		require.NoError(t, rows.Err())
	}
	for query := range b.writer.stmts {
		explain(query)
	}
	read := 0
	b.pool.stmts.Range(func(query, _ any) bool {
		explain(query.(string))
		read++
		return true
	})
	if statements < 60 || read < 5 {
		t.Errorf("only %d statements, %d of readers", statements, read)
	}
	t.Logf("%d statements, %d of readers", statements, read)
}

// readWindow reads a part of a thread in every way there is.
func readWindow(t *testing.T, s *Store) {
	t.Helper()
	ctx, id := t.Context(), "s/default"
	calls, err := s.ToolCalls(ctx, id)
	if err != nil || len(calls) == 0 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	for _, n := range []int{1, 5, 60} {
		ids := slices.Repeat([]string{calls[0].ID}, n)
		some, err := s.ToolCallsOf(ctx, id, ids)
		tasks, err2 := s.TasksOf(ctx, id, ids)
		marks, err3 := s.Mark(ctx, slices.Repeat([]string{id}, n))
		if err := errors.Join(err, err2, err3); err != nil || len(some) != 1 || len(marks) != 1 {
			t.Fatalf("%d calls, %d tasks, %d marks, %v", len(some), len(tasks), len(marks), err)
		}
	}
	_, err = s.OpenCalls(ctx, id)
	_, err2 := s.Waiting(ctx, id)
	_, err3 := s.InboxBefore(ctx, id, 0, 2)
	_, err4 := s.LastTurn(ctx, id)
	_, err5 := s.Stream(ctx, id)
	_, _, err6 := s.Stopping(ctx, []string{calls[0].TurnID})
	require.NoError(t, errors.Join(err, err2, err3, err4, err5, err6))
}

package sqlite

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	b, err := openFile(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(ctx, b, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Send(ctx, memorytest.Request("s", "m")); err != nil {
		t.Fatal(err)
	}
	if err := memorytest.RunTurns(ctx, s, "s/default"); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Messages(ctx, "s/default", 3, 2); err != nil || len(m) != 2 {
		t.Fatalf("%d messages, %v", len(m), err)
	}
	if _, err := s.Events(ctx, "s/default", 3, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ToolCalls(ctx, "s/default"); err != nil {
		t.Fatal(err)
	}
	for _, f := range []memory.ThreadFilter{{UserID: "u"}, {SessionID: "s"}, {Root: "s/default", All: true}, {Parent: "s/default", All: true}} {
		if _, err := s.Threads(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Children(ctx, "s/default"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Overdue(ctx, time.Second, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenTurns(ctx, 10); err != nil {
		t.Fatal(err)
	}
	if n, err := memorytest.Hammer(ctx, s, "h", 3, time.Now().Add(time.Second)); err != nil || n < 50 {
		t.Fatalf("%d operations, %v", n, err)
	}
	// What the program itself makes of small numbers of rows may be scanned.
	scan := regexp.MustCompile(`^SCAN (messages|events|chunks|steps|tool_calls|inbox|turns|threads|tasks|outputs|approvals|sessions|configs|[a-z])\b`)
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
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			if scan.MatchString(detail) && !strings.HasSuffix(detail, " USING INDEX turns_open") { // which has the open ones only
				t.Errorf("%s\nof %s", detail, query)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
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

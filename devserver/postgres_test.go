//go:build postgres

package main

import (
	"context"
	"net/url"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPostgres needs a PostgreSQL server and a user that may create databases:
//
//	DEVSERVER_TEST_POSTGRES=postgres://user:password@127.0.0.1:5432/scratch go test -tags postgres -run TestPostgres .
//
// It drops and creates the databases scratch and scratch_visibility.
func TestPostgres(t *testing.T) {
	dsn := os.Getenv("DEVSERVER_TEST_POSTGRES")
	u, err := url.Parse(dsn)
	if err != nil || u.Path == "" {
		t.Fatal("DEVSERVER_TEST_POSTGRES is not set to a PostgreSQL URL with a database to drop and create")
	}
	dropDatabases(t, u)

	p := start(t, "--postgres", dsn)
	c := p.client()
	startEcho(t, c, "kept")
	if err := c.SignalWorkflow(testContext(t), "kept", "", "go", "still here"); err != nil {
		t.Fatal(err)
	}
	launch(t, "--postgres", dsn, "--port", "0", "--ui-port", "0").
		wantFailure(exitFailed, u.Host+u.Path, "in use by another devserver", "another database name")
	p.kill()

	p = start(t, "--postgres", dsn)
	c = p.client()
	w := work(t, c)
	defer w.Stop()
	var got string
	if err := c.GetWorkflow(testContext(t), "kept", "").Get(testContext(t), &got); err != nil || got != "still here" {
		t.Errorf("result of the workflow from before the kill: %q, %v", got, err)
	}
	wantFound(t, c, "kept")
	want := slices.Sorted(slices.Values(searchAttributeNames))
	if got := listAttributes(t, c, "default"); !slices.Equal(got, want) {
		t.Errorf("search attributes %v, want %v", got, want)
	}
	p.wantQuietExit(func() error { return p.cmd.Process.Signal(os.Interrupt) })
	dropDatabases(t, u)
}

func dropDatabases(t *testing.T, u *url.URL) {
	t.Helper()
	ctx := context.Background()
	admin, err := connect(ctx, u, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(ctx)
	for _, suffix := range []string{"", "_visibility"} {
		name := pgx.Identifier{u.Path[1:] + suffix}.Sanitize()
		if _, err := admin.Exec(ctx, "drop database if exists "+name+" with (force)"); err != nil {
			t.Fatal(err)
		}
	}
}

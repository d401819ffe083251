//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/postgres"
)

// password stands in the URLs of these tests and must stand in no error.
const password = "secret-word"

func code(t *testing.T, err error, want agent.Code, words ...string) {
	t.Helper()
	if agent.CodeOf(err) != want {
		t.Fatalf("got %q (%v), want %s", agent.CodeOf(err), err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), password) {
			t.Errorf("the password stands in %q", e)
		}
	}
}

func openError(t *testing.T, url string) error {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err == nil {
		_ = s.Close()
	}
	return err
}

// with changes a URL.
func with(t *testing.T, text string, change func(u *url.URL)) string {
	t.Helper()
	u := memorytest.Must(url.Parse(text))(t)
	change(u)
	return u.String()
}

// TestRefusalsSayWhatToDo opens stores that cannot be opened.
func TestRefusalsSayWhatToDo(t *testing.T) {
	c := pgtest.Start(t)
	good := c.Database(t)
	pgtest.Exec(t, good, `CREATE ROLE locked LOGIN PASSWORD 'right'; CREATE ROLE guest LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC`)
	l := memorytest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := l.Addr().String()
	_ = l.Close()
	for _, f := range []struct {
		name, url string
		code      agent.Code
		words     []string
	}{
		{"nobody listens", with(t, good, func(u *url.URL) { u.Host = closed }), agent.CodeUnavailable, []string{closed, "cannot be reached", "try again"}},
		{"no such host", with(t, good, func(u *url.URL) { u.Host = "no.such.host.invalid:5432" }), agent.CodeUnavailable, []string{"no.such.host.invalid", "cannot be reached"}},
		{"no such database", with(t, good, func(u *url.URL) { u.Path = "/nowhere" }), agent.CodeUnavailable, []string{"/nowhere", "createdb"}},
		{"a wrong password", with(t, good, func(u *url.URL) { u.User = url.UserPassword("locked", password) }), agent.CodeUnavailable, []string{"locked@", "refused this user"}},
		{"no right to make tables", with(t, good, func(u *url.URL) { u.User = url.UserPassword("guest", password) }), agent.CodeUnavailable, []string{"right to create"}},
		{"another encoding", c.Database(t, "ENCODING 'LATIN1' TEMPLATE template0"), agent.CodeInvalid, []string{"LATIN1", "UTF8"}},
		{"no such schema", pgtest.With(t, good, "search_path", "nowhere"), agent.CodeInvalid, []string{"search_path"}},
		{"another scheme", "mysql://u:" + password + "@h/d", agent.CodeInvalid, []string{"postgres://USER"}},
		{"no URL", "postgres://u:" + password + "@h:x%zz/d", agent.CodeInvalid, []string{"postgres://USER"}},
		{"a wrong port", "postgres://u:" + password + "@h:99999/d", agent.CodeInvalid, []string{"port", "postgres://USER"}},
		{"a wrong parameter", "postgres://u:" + password + "@h/d?sslmode=maybe", agent.CodeInvalid, []string{"sslmode", "postgres://USER"}},
		{"a password as parameter", "postgres://h/d?user=u&sslmode=maybe&password=" + password, agent.CodeInvalid, []string{"sslmode"}},
		{"a wrong pool", pgtest.With(t, good, "pool_max_conns", "0"), agent.CodeInvalid, []string{"pool_max_conns"}},
	} {
		t.Run(f.name, func(t *testing.T) {
			err := openError(t, f.url)
			code(t, err, f.code, f.words...)
			t.Log(err)
		})
	}
}

// TestServerThatStopsIsUnavailable: each way a server goes away while a store is
// in use, and back again.
func TestServerThatStopsIsUnavailable(t *testing.T) {
	c := pgtest.Start(t)
	db := c.Database(t)
	s := mustOpen(t, db)
	works := func(id string) {
		t.Helper()
		memorytest.Must(s.Send(t.Context(), memorytest.Request("s", id)))(t)
	}
	works("m1")
	c.Stop(t)
	_, err := s.Send(t.Context(), memorytest.Request("s", "m2"))
	code(t, err, agent.CodeUnavailable, c.Address(), "cannot be reached")
	_, err = s.Thread(t.Context(), "u", "s/default")
	code(t, err, agent.CodeUnavailable, c.Address())
	_, err = s.Changed(t.Context())
	code(t, err, agent.CodeUnavailable, c.Address())
	_, err = s.Overdue(t.Context(), time.Second, 1)
	code(t, err, agent.CodeUnavailable, c.Address())
	c.Restart(t)
	works("m2")
	memorytest.Must(s.Thread(t.Context(), "u", "s/default"))(t)
	// Idle connections ended by an administrator are replaced without a word.
	pgtest.Exec(t, c.URL("postgres"), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'spool'`)
	works("m3")
	memorytest.Must(s.Thread(t.Context(), "u", "s/default"))(t)
	readOnly := func(change string) {
		t.Helper()
		pgtest.Exec(t, c.URL("postgres"), `ALTER DATABASE `+db[strings.LastIndex(db, "/")+1:strings.Index(db, "?")]+` `+change)
		pgtest.Exec(t, c.URL("postgres"), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'spool'`)
	}
	readOnly(`SET default_transaction_read_only = on`)
	_, err = s.Send(t.Context(), memorytest.Request("s", "m4"))
	code(t, err, agent.CodeUnavailable, "read-only", "primary")
	readOnly(`RESET default_transaction_read_only`)
	works("m4")
	memorytest.Sound(t, s)
}

// TestTooManyConnections: the server has none left.
func TestTooManyConnections(t *testing.T) {
	c := pgtest.Start(t)
	db := c.Database(t)
	pgtest.Exec(t, db, `CREATE ROLE few LOGIN CONNECTION LIMIT 1; GRANT CREATE ON SCHEMA public TO few`)
	few := with(t, db, func(u *url.URL) { u.User = url.UserPassword("few", password) })
	conn := memorytest.Must(pgx.Connect(t.Context(), few))(t)
	defer conn.Close(context.Background())
	code(t, openError(t, few), agent.CodeUnavailable, "max_connections", "pool_max_conns")
}

// hold locks a thread's tree as a foreign program would.
func hold(t *testing.T, db string) (release func()) {
	t.Helper()
	conn := memorytest.Must(pgx.Connect(t.Context(), db))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	memorytest.Must(conn.Exec(t.Context(), `BEGIN; UPDATE threads SET topic = topic`))(t)
	return func() { _ = conn.Close(context.Background()) }
}

// TestLocks: a lock held by somebody else is waited for; for too long it is an
// error that says so, and a caller that gives up stops waiting at once. Readers
// and other trees go on.
func TestLocks(t *testing.T) {
	db := pgtest.Database(t)
	s := memorytest.Must(postgres.Open(t.Context(), db, postgres.Options{MaxConnections: 8, LockTimeout: 3 * time.Second}))(t)
	t.Cleanup(func() { _ = s.Close() })
	send := func(ctx context.Context, id string) error {
		_, err := s.Send(ctx, memorytest.Request("s", id))
		return err
	}
	require.NoError(t, send(t.Context(), "m1"))
	release := hold(t, db)
	code(t, send(t.Context(), "m2"), agent.CodeUnavailable, "another transaction", "try again")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := send(ctx, "m2")
	code(t, err, agent.CodeUnavailable, "nothing was changed")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	memorytest.Must(s.Thread(t.Context(), "u", "s/default"))(t)                // reading needs no lock
	memorytest.Must(s.Send(t.Context(), memorytest.Request("other", "m1")))(t) // another tree
	time.AfterFunc(300*time.Millisecond, release)
	require.NoError(t, send(t.Context(), "m2"), "a short wait")
	entries := memorytest.Must(s.Inbox(t.Context(), "s/default"))(t)
	require.Len(t, entries, 2)
	memorytest.Sound(t, s)
}

// TestPausedProcessLosesItsLocks: a process that is stopped in the middle of a
// transaction holds its tree up for a while only, and changes nothing later.
func TestPausedProcessLosesItsLocks(t *testing.T) {
	db := pgtest.Database(t)
	quick := pgtest.With(t, db, "idle_in_transaction_session_timeout", "300")
	s := mustOpen(t, quick)
	for _, session := range []string{"s", "mine"} {
		memorytest.Must(s.Send(t.Context(), memorytest.Request(session, "m1")))(t)
	}
	// An operation that stops before its commit, as SIGSTOP would stop it.
	entered, resume := make(chan struct{}), make(chan struct{})
	before := memory.CrashPoint
	stopped := false
	memory.CrashPoint = func(name string) {
		if name == "before-claim" && !stopped {
			stopped = true
			close(entered)
			<-resume
		}
	}
	t.Cleanup(func() { memory.CrashPoint = before })
	failed := make(chan error)
	go func() {
		_, err := s.TakeNext(context.Background(), memory.TakeRequest{ThreadID: "s/default", RunID: "paused"})
		failed <- err
	}()
	<-entered
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m2")))(t)
	close(resume)
	code(t, <-failed, agent.CodeUnavailable, "try again")
	turns := memorytest.Must(s.TurnsOf(t.Context(), "s/default"))(t)
	require.Empty(t, turns)
	memorytest.Sound(t, s)
}

// TestFault_C12_DiskFull: the server says that its disk is full, before and at the
// end of a transaction. Nothing is half written, and the store goes on when there
// is room.
func TestFault_C12_DiskFull(t *testing.T) {
	db := pgtest.Database(t)
	s := mustOpen(t, db)
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "before")))(t)
	pgtest.Exec(t, db, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	for _, trigger := range []string{
		`CREATE TRIGGER full_disk BEFORE INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION full_disk()`,
		`CREATE CONSTRAINT TRIGGER full_disk AFTER INSERT ON inbox INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION full_disk()`,
	} {
		pgtest.Exec(t, db, trigger)
		_, err := s.Send(t.Context(), memorytest.Request("s", "full"))
		code(t, err, agent.CodeUnavailable, "disk is full", "nothing was changed")
		entries := memorytest.Must(s.Inbox(t.Context(), "s/default"))(t)
		require.Len(t, entries, 1)
		memorytest.Sound(t, s)
		pgtest.Exec(t, db, `DROP TRIGGER full_disk ON inbox`)
	}
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "after")))(t) // after there was room
	memorytest.Sound(t, s)
}

// TestClockIsTheDatabases: times are the server's, whatever this machine thinks.
func TestClockIsTheDatabases(t *testing.T) {
	db := pgtest.Database(t)
	s := mustOpen(t, db)
	const now = `SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint`
	before := query(t, db, now)
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m")))(t)
	th, err := s.Thread(t.Context(), "u", "s/default")
	if err != nil || th.CreatedAt.UnixMilli() < before || th.CreatedAt.UnixMilli() > query(t, db, now) {
		t.Errorf("created at %s, %v", th.CreatedAt, err)
	}
	overdue := memorytest.Must(s.Overdue(t.Context(), 0, 10))(t)
	require.Len(t, overdue, 1)
}

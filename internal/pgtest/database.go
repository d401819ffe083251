package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Env names the URL of a server to use instead of a throw-away cluster.
const Env = "SPOOL_TEST_POSTGRES"

var shared struct {
	once sync.Once
	url  string
	err  error
}

// server is the URL of the package's server; its user may create databases.
func server(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		if shared.url = os.Getenv(Env); shared.url != "" {
			return
		}
		var c *Cluster
		if c, shared.err = start(false); shared.err == nil {
			shared.url = c.URL("postgres")
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.url
}

// Database makes an empty database and returns its URL; nothing of it is left when
// the tests have ended. options are clauses of CREATE DATABASE.
func Database(t testing.TB, options ...string) string {
	t.Helper()
	return createDatabase(t, server(t), options)
}

func createDatabase(t testing.TB, admin string, options []string) string {
	t.Helper()
	name := "spool_test_" + random()
	create := "CREATE DATABASE " + name
	for _, o := range options {
		create += " " + o
	}
	Exec(t, admin, create)
	// A throw-away cluster is removed as a whole; dropping takes a checkpoint.
	if admin == os.Getenv(Env) {
		t.Cleanup(func() { _ = exec(admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	}
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// Schema makes an empty schema in a database and returns the URL that uses it:
// quicker to have than a database of its own.
func Schema(t testing.TB, database string) string {
	t.Helper()
	name := "s_" + random()
	Exec(t, database, "CREATE SCHEMA "+name)
	return With(t, database, "search_path", name)
}

// With sets a parameter of a URL.
func With(t testing.TB, database, key, value string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// Exec runs statements on a database, behind the store's back.
func Exec(t testing.TB, database, statements string) {
	t.Helper()
	if err := exec(database, statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func exec(database, statements string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statements)
	return err
}

func random() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

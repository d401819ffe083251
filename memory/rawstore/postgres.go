package rawstore

import (
	"database/sql"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/spool-agents/spool/agent"
)

// Postgres makes a Persistence in a PostgreSQL database: in one of its own or
// in that of a whole store. All writers of the raw-key view take turns; readers
// wait for nobody. Nothing is connected before the first access.
func Postgres(location string, o Options) (*SQL, error) {
	config, err := pgx.ParseConfig(location)
	if err != nil { // pgx's message may show the password
		return nil, agent.Errorf(agent.CodeInvalid, "memory location: this is not a PostgreSQL URL: use postgres://USER:PASSWORD@HOST:PORT/DATABASE (special characters in a password as %%XX)")
	}
	for key, value := range map[string]string{
		"application_name": "spool",
		"lock_timeout":     strconv.FormatInt(o.wait().Milliseconds(), 10),
	} {
		if _, ok := config.RuntimeParams[key]; !ok {
			config.RuntimeParams[key] = value
		}
	}
	name := url.URL{Scheme: "postgres", Host: config.Host + ":" + strconv.Itoa(int(config.Port)), Path: "/" + config.Database}
	what := "postgres memory " + name.String()
	return NewSQL(Dialect{
		Name: what, Numbered: true,
		// The key of the lock is the ASCII of "spoolraw".
		Lock:        `SELECT pg_advisory_xact_lock(8318271036104794487)`,
		TableExists: `SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = ?`,
		MapError:    func(err error) error { return mapPostgres(what, err) },
	}, func() (write, read *sql.DB, err error) {
		db := stdlib.OpenDB(*config)
		db.SetMaxOpenConns(readers + 1)
		db.SetMaxIdleConns(readers + 1)
		db.SetConnMaxIdleTime(5 * time.Minute)
		return db, db, nil
	}), nil
}

func mapPostgres(what string, err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case strings.HasPrefix(e.Code, "22"):
		return agent.Wrap(err, agent.CodeInvalid, "%s cannot hold this value; nothing was changed", what)
	case e.Code == "55P03":
		return agent.Wrap(err, agent.CodeUnavailable, "%s is held by another writer for too long: end whoever holds it (pg_stat_activity shows them), then try again; nothing was changed", what)
	case strings.HasPrefix(e.Code, "53"):
		return agent.Wrap(err, agent.CodeUnavailable, "%s is short of connections, memory or space: free some on the server, then try again; nothing was changed", what)
	case e.Code == "25006", e.Code == "42501":
		return agent.Wrap(err, agent.CodeUnavailable, "%s may not be written by this user: name the primary and give the user the right to make tables, then try again; nothing was changed", what)
	}
	return err
}

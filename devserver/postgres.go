package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/tools/common/schema"
	sqltool "go.temporal.io/server/tools/sql"
)

const (
	// postgresShards is fixed for the life of a database.
	postgresShards = 4
	// postgresLock is the advisory lock that one server holds in its main database.
	postgresLock = 7233_5700
	// postgresTimeout bounds each step of opening, so that a host that does not
	// answer is reported instead of waited for.
	postgresTimeout = 15 * time.Second

	noSuchDatabase    = "3D000" // SQLSTATE
	databaseIsCreated = "42P04" // SQLSTATE: by somebody else, just now
)

// postgresStore keeps Temporal's own data in two databases of one server.
type postgresStore struct {
	main, visibility *config.SQL
	// lock is a connection that is held open: the advisory lock ends with it.
	lock *pgx.Conn
}

func openPostgres(o options, log logger) (_ store, err error) {
	dsn, err := url.Parse(o.postgres)
	if err != nil || (dsn.Scheme != "postgres" && dsn.Scheme != "postgresql") || dsn.Hostname() == "" || strings.Trim(dsn.Path, "/") == "" {
		// Not with err, which would print the password.
		return nil, errors.New("--postgres: not a PostgreSQL URL: use postgres://user:password@host:5432/name")
	}
	s := &postgresStore{main: postgresConfig(dsn, ""), visibility: postgresConfig(dsn, "_visibility")}
	ctx, cancel := context.WithTimeout(context.Background(), 4*postgresTimeout)
	defer cancel()

	if s.lock, err = connectOrCreate(ctx, dsn, s.main.DatabaseName); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var free bool
	if err := s.lock.QueryRow(ctx, "select pg_try_advisory_lock($1)", postgresLock).Scan(&free); err != nil {
		return nil, fmt.Errorf("lock %s: %w", s.describe(), err)
	}
	if !free {
		return nil, fmt.Errorf("%s is in use by another devserver: stop that one, or give another database name", s.describe())
	}
	other, err := connectOrCreate(ctx, dsn, s.visibility.DatabaseName)
	if err != nil {
		return nil, err
	}
	_ = other.Close(ctx)
	if err := migrate(s.main, "postgresql/v12/temporal", log); err != nil {
		return nil, err
	}
	if err := migrate(s.visibility, "postgresql/v12/visibility", log); err != nil {
		return nil, err
	}
	return s, nil
}

func postgresConfig(dsn *url.URL, suffix string) *config.SQL {
	port := dsn.Port()
	if port == "" {
		port = "5432"
	}
	password, _ := dsn.User.Password()
	cfg := &config.SQL{
		PluginName:        postgresql.PluginNamePGX,
		User:              url.PathEscape(dsn.User.Username()),
		Password:          password,
		ConnectAddr:       net.JoinHostPort(dsn.Hostname(), port),
		ConnectProtocol:   "tcp",
		DatabaseName:      strings.Trim(dsn.Path, "/") + suffix,
		ConnectAttributes: map[string]string{},
		MaxConns:          20,
		MaxIdleConns:      20,
	}
	for key, values := range dsn.Query() {
		cfg.ConnectAttributes[key] = values[0]
	}
	return cfg
}

// connectOrCreate connects to the database name, which it creates if it is missing.
func connectOrCreate(ctx context.Context, dsn *url.URL, name string) (*pgx.Conn, error) {
	conn, err := connect(ctx, dsn, name)
	if !hasCode(err, noSuchDatabase) {
		return conn, err
	}
	admin, err := connect(ctx, dsn, "postgres")
	if err != nil {
		return nil, fmt.Errorf("database %s does not exist: create it, or let this user connect to the database postgres: %w", name, err)
	}
	defer func() { _ = admin.Close(ctx) }()
	_, err = admin.Exec(ctx, "create database "+pgx.Identifier{name}.Sanitize())
	if err != nil && !hasCode(err, databaseIsCreated) {
		return nil, fmt.Errorf("create database %s: create it by hand, or give this user the right to: %w", name, err)
	}
	return connect(ctx, dsn, name)
}

func connect(ctx context.Context, dsn *url.URL, name string) (*pgx.Conn, error) {
	to := *dsn
	to.Path = "/" + name
	query := to.Query()
	if !query.Has("sslmode") {
		query.Set("sslmode", "disable") // as the server's own connections do
	}
	to.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, postgresTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, to.String())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to.Redacted(), err)
	}
	return conn, nil
}

func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// migrate creates the version tables in a new database and applies the schema
// versions that are missing, which is none in most cases.
func migrate(cfg *config.SQL, schemaName string, log logger) error {
	conn, err := sqltool.NewConnection(cfg, log)
	if err != nil {
		return fmt.Errorf("connect to database %s: %w", cfg.DatabaseName, err)
	}
	defer conn.Close()
	if _, err := conn.ReadSchemaVersion(); err != nil {
		setup := &schema.SetupConfig{InitialVersion: "0.0"}
		if err := schema.NewSetupSchemaTask(conn, setup, log).Run(); err != nil {
			return fmt.Errorf("set up the schema versions in database %s: %w", cfg.DatabaseName, err)
		}
	}
	if err := schema.NewUpdateSchemaTask(conn, &schema.UpdateConfig{SchemaName: schemaName}, log).Run(); err != nil {
		return fmt.Errorf("bring the schema of database %s up to date: %w", cfg.DatabaseName, err)
	}
	return nil
}

func (s *postgresStore) persistence() config.Persistence {
	return persistence(postgresShards, s.main, s.visibility)
}

func (s *postgresStore) describe() string {
	return fmt.Sprintf("postgres://%s/%s", s.main.ConnectAddr, s.main.DatabaseName)
}

func (s *postgresStore) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.lock.Close(ctx)
}

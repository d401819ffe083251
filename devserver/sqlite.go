package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// sqliteShards is fixed for the life of a file. SQLite writes one at a time, so
// more shards would only add work.
const sqliteShards = 1

type sqliteStore struct {
	path string
	cfg  *config.SQL
	lock *fileLock
}

func openSQLite(o options) (_ store, err error) {
	if err := os.MkdirAll(filepath.Dir(o.db), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of --db %s: %w", o.db, err)
	}
	path := o.db
	// One file must have one lock, whatever links lead to it.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.release()
		}
	}()
	s := &sqliteStore{path: path, lock: lock, cfg: &config.SQL{
		PluginName:        sqliteplugin.PluginName,
		DatabaseName:      escapeURIPath(path),
		ConnectAttributes: map[string]string{"mode": "rwc"},
	}}
	if !o.untuned {
		// Three times the throughput of the rollback journal. A power cut may
		// lose the last moments but not tear the file; a killed process loses nothing.
		s.cfg.ConnectAttributes["journal_mode"] = "wal"
		s.cfg.ConnectAttributes["synchronous"] = "normal"
	}
	if err := s.createSchema(); err != nil {
		return nil, err
	}
	// Created before the server starts, so that it knows the namespace and its
	// search attributes at once instead of at its next refresh.
	namespace, err := sqliteschema.NewNamespaceConfig(clusterName, o.namespace, false, searchAttributes())
	if err != nil {
		return nil, fmt.Errorf("describe namespace %s: %w", o.namespace, err)
	}
	namespace.Detail.Config.Retention = retention()
	if err := sqliteschema.CreateNamespaces(s.cfg, namespace); err != nil {
		return nil, fmt.Errorf("create namespace %s in %s: %w", o.namespace, path, err)
	}
	return s, nil
}

// createSchema creates Temporal's tables in a new file, in one transaction: a
// process killed in it leaves an empty file, not half a schema.
func (s *sqliteStore) createSchema() (err error) {
	// Histories hold what people wrote. SQLite gives its side files the same mode.
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open --db: %w", err)
	}
	_ = f.Close() // nothing was written
	db, err := sql.Open(sqliteplugin.PluginName, "file:"+s.cfg.DatabaseName)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit: nothing

	var tables, temporal int
	if err := tx.QueryRow(`select count(*), count(case when name in ('namespaces', 'executions_visibility') then 1 end)
		from sqlite_master where type = 'table'`).Scan(&tables, &temporal); err != nil {
		return fmt.Errorf("%s cannot be read as a SQLite file: %w; give another --db, or move that file away", s.path, err)
	}
	switch {
	case temporal == 2:
		return nil
	case tables > 0:
		return fmt.Errorf("%s is a SQLite file of something else (no Temporal tables): give another --db", s.path)
	}
	if err := sqliteschema.SetupSchemaOnDB(schemaTx{tx: tx}); err != nil {
		return fmt.Errorf("create Temporal's tables in %s: %w", s.path, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("create Temporal's tables in %s: %w", s.path, err)
	}
	return nil
}

func (s *sqliteStore) persistence() config.Persistence {
	return persistence(sqliteShards, s.cfg, s.cfg)
}

func (s *sqliteStore) describe() string { return s.path }

func (s *sqliteStore) close() { s.lock.release() }

// schemaTx runs the schema's statements in a transaction; the schema's setup
// uses Exec and nothing else of the interface.
type schemaTx struct {
	sqlplugin.AdminDB
	tx *sql.Tx
}

// Exec runs one statement.
func (s schemaTx) Exec(stmt string, args ...any) error {
	_, err := s.tx.Exec(stmt, args...)
	return err
}

// escapeURIPath escapes what would end the path in the file: URI that the
// server makes of it.
func escapeURIPath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(path))
}

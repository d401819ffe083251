package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// A namespace from before the search attributes gets them, and keeps its own.
func TestSearchAttributesAreAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	s := &sqliteStore{path: path, cfg: &config.SQL{
		PluginName: sqliteplugin.PluginName, DatabaseName: path, ConnectAttributes: map[string]string{"mode": "rwc"},
	}}
	if err := s.createSchema(); err != nil {
		t.Fatal(err)
	}
	old := map[string]enumspb.IndexedValueType{
		"Theirs": enumspb.INDEXED_VALUE_TYPE_KEYWORD, "TurnId": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, "default", false, old)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqliteschema.CreateNamespaces(s.cfg, ns); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--db", path)
	c := p.client()
	startEcho(t, c, "labelled")
	wantFound(t, c, "labelled")
	want := append([]string{"Theirs"}, searchAttributeNames...)
	slices.Sort(want)
	if got := listAttributes(t, c, "default"); !slices.Equal(got, want) {
		t.Errorf("search attributes %v, want %v", got, want)
	}
}

// An attribute of the right name and the wrong type cannot be repaired here.
func TestWrongAttributeTypeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd.db")
	s := &sqliteStore{path: path, cfg: &config.SQL{
		PluginName: sqliteplugin.PluginName, DatabaseName: path, ConnectAttributes: map[string]string{"mode": "rwc"},
	}}
	if err := s.createSchema(); err != nil {
		t.Fatal(err)
	}
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, "default", false,
		map[string]enumspb.IndexedValueType{"TurnId": enumspb.INDEXED_VALUE_TYPE_INT})
	if err != nil {
		t.Fatal(err)
	}
	if err := sqliteschema.CreateNamespaces(s.cfg, ns); err != nil {
		t.Fatal(err)
	}
	launch(t, "--db", path, "--port", "0", "--ui-port", "0").
		wantFailure(exitFailed, "search attribute TurnId of namespace default is of type Int", "another --namespace")
}

// A file of something else is named and left as it was.
func TestForeignFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	text, other := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "other.db")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database\n"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(sqliteplugin.PluginName, "file:"+other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("create table mine (id integer)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for path, message := range map[string]string{text: "cannot be read as a SQLite file", other: "SQLite file of something else"} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		launch(t, "--db", path, "--port", "0", "--ui-port", "0").wantFailure(exitFailed, path, message, "another --db")
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s was changed (%v)", path, err)
		}
	}
}

// Tuning is the write-ahead log and the raised limits; --untuned leaves both out.
func TestUntunedKeepsDefaults(t *testing.T) {
	for _, c := range []struct {
		flag, journal string
	}{{"", "wal"}, {"--untuned", "delete"}} {
		path := filepath.Join(t.TempDir(), "t.db")
		args := []string{"--db", path, "--ui-port", "-1"}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		p := start(t, args...)
		if p.ready.UI != "" {
			t.Errorf("web UI %q in spite of --ui-port -1", p.ready.UI)
		}
		p.kill()
		db, err := sql.Open(sqliteplugin.PluginName, "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		var journal string
		if err := db.QueryRow("pragma journal_mode").Scan(&journal); err != nil || journal != c.journal {
			t.Errorf("%q: journal mode %q, %v; want %s", c.flag, journal, err, c.journal)
		}
		_ = db.Close()
	}
	if n := len(dynamicConfig(true)); n != 1 {
		t.Errorf("%d settings with --untuned, want only the one that keeps it from calling home", n)
	}
	for _, key := range []string{
		"history.transferProcessorMaxPollRPS", "history.timerProcessorMaxPollRPS", "history.visibilityProcessorMaxPollRPS",
		"history.workflowIdReuseMinimalInterval", "history.timerProcessorMaxTimeShift",
		"system.enableCancelActivityWorkerCommand", "frontend.WorkerCommandsEnabled",
	} {
		found := false
		for k := range dynamicConfig(false) {
			found = found || strings.EqualFold(k.String(), key) // the server folds the case too
		}
		if !found {
			t.Errorf("%s is not set", key)
		}
	}
}

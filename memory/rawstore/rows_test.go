package rawstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/rawstore"
	"github.com/spool-agents/spool/memory/sqlite"
)

// counting counts what is asked of a persistence.
type counting struct {
	memory.Persistence
	views, updates int
}

func (c *counting) View(ctx context.Context, id memory.IDOf, f func(memory.Records) error) error {
	c.views++
	return c.Persistence.View(ctx, id, f)
}

func (c *counting) Update(ctx context.Context, id memory.IDOf, f func(memory.Records) error) error {
	c.updates++
	return c.Persistence.Update(ctx, id, f)
}

// TestRow27_LazyLoadEagerSave: nothing is read before the first access, which
// sees what came into being after the port was made; an append is on the disk
// when it returns.
func TestRow27_LazyLoadEagerSave(t *testing.T) {
	for _, b := range backends {
		if !b.durable {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			location := b.kind + filepath.Join(t.TempDir(), "deeper", b.file)
			inner, err := rawstore.Open(location, rawstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := &counting{Persistence: inner}
			lazy := memory.NewPersistedMemory(c, memorytest.PortItemID)
			defer lazy.Close()
			if c.views+c.updates > 0 {
				t.Error("the persistence was used before the first access")
			}
			other := mustPort(t, location)
			if err := other.Append(t.Context(), "k", memorytest.PortItem{ID: "a"}); err != nil {
				t.Fatal(err)
			}
			if got, err := lazy.Get(t.Context(), "k"); err != nil || len(got) != 1 || c.views != 1 || c.updates != 0 {
				t.Errorf("%v, %v after %d views and %d updates", got, err, c.views, c.updates)
			}
			if err := lazy.Append(t.Context(), "k", memorytest.PortItem{ID: "b"}); err != nil {
				t.Fatal(err)
			}
			// Nothing was closed: a reader of the disk sees it.
			if got, err := mustPort(t, location).Get(t.Context(), "k"); err != nil || len(got) != 2 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// TestRow29_SnapshotIsTheFile: the JSON of a snapshot is what the JSON file
// holds, and moves between all back ends unchanged.
func TestRow29_SnapshotIsTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "memory.json")
	text := `{"__metadata__:cli":[{"topic":"<b> & ü","n":9007199254740993}],"cli":[{"id":"a","role":"user","content":"hi \u2028"},{"id":"b","content":null}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var first []byte
	from := "file:" + path
	for _, to := range []string{"sqlite:" + filepath.Join(dir, "m.db"), "memory:", "file:" + filepath.Join(dir, "m.json")} {
		source, target := rawPort(t, from), rawPort(t, to)
		s, err := source.ExportSnapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := target.ImportSnapshot(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		again, err := target.ExportSnapshot(t.Context())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%s to %s: %s, %v; want %s", from, to, again, err, s)
		}
		data, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		var want, have any
		if json.Unmarshal([]byte(text), &want) != nil || json.Unmarshal(data, &have) != nil || !reflect.DeepEqual(have, want) || string(data) != string(first) {
			t.Errorf("%s holds %s, want %s", to, data, text)
		}
	}
	saved, err := os.ReadFile(filepath.Join(dir, "m.json"))
	if err != nil || !strings.Contains(string(saved), "9007199254740993") || !strings.Contains(string(saved), "<b> & ü") {
		t.Errorf("%s, %v", saved, err)
	}
}

func rawPort(t *testing.T, location string) memory.AtomicPort[json.RawMessage] {
	t.Helper()
	p, err := memory.CreateMemory(location != "memory:", func() (memory.Persistence, error) { return rawstore.Open(location, rawstore.Options{}) }, memory.RawID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestRow30_LocationsAreInterchangeable: a setting decides, and nonsense is
// refused with what is possible.
func TestRow30_LocationsAreInterchangeable(t *testing.T) {
	for _, location := range []string{"", "cli", "file:", "sqlite:", "memory:x", "redis://h", "postgres://%zz"} {
		if _, err := rawstore.Open(location, rawstore.Options{}); agent.CodeOf(err) != agent.CodeInvalid || !strings.Contains(err.Error(), "postgres://") {
			t.Errorf("%q: %v", location, err)
		}
	}
	if _, err := rawstore.Open("postgres://u:geheim@h:port/db", rawstore.Options{}); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("%v", err)
	}
	for _, b := range backends {
		p := rawPort(t, b.kind+map[bool]string{true: filepath.Join(t.TempDir(), b.file)}[b.durable])
		s := memory.NewConversationStore(p, memory.ConversationOptions{})
		if err := s.AppendMessages(t.Context(), "cli", agent.Message{ID: "m", Role: agent.RoleUser, Content: agent.Text("hi")}); err != nil {
			t.Fatal(err)
		}
		if c, err := s.GetConversation(t.Context(), "cli"); err != nil || len(c.Messages) != 1 || c.Metadata.MessageCount != 1 {
			t.Errorf("%s: %+v, %v", b.name, c, err)
		}
	}
}

// TestRow26_InMemoryWritesNoFile and row 34: without persistence nothing is
// opened and nothing is on the disk.
func TestRow26_InMemoryWritesNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, p := range []memory.AtomicPort[memorytest.PortItem]{memory.NewInMemoryMemory(memorytest.PortItemID), mustPort(t, "memory:")} {
		if err := p.Append(t.Context(), "k", memorytest.PortItem{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Get(t.Context(), "k"); err != nil || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
	if got, err := memory.NewInMemoryMemory(memorytest.PortItemID).Keys(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("a new one holds %v, %v", got, err)
	}
}

func TestRow34_CreateMemory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	opened := 0
	open := func() (memory.Persistence, error) {
		opened++
		return rawstore.Open("file:"+filepath.Join(dir, "home", "m.json"), rawstore.Options{})
	}
	for _, persist := range []bool{false, true} {
		p, err := memory.CreateMemory(persist, open, memorytest.PortItemID)
		if err != nil {
			t.Fatal(err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("persist=%t: %v, %v before the first item", persist, files, err)
		}
		if err := p.Append(t.Context(), "k", memorytest.PortItem{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil || (len(files) > 0) != persist || (opened > 0) != persist {
			t.Errorf("persist=%t: %v, %v, opened %d times", persist, files, err, opened)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestItemsInTheFileOfAStore: the raw-key view has tables and a version of its
// own beside those of a whole store.
func TestItemsInTheFileOfAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := mustPort(t, "sqlite:"+path)
	if err := p.Append(t.Context(), "k", memorytest.PortItem{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	_, err = store.Send(t.Context(), memory.SendRequest{UserID: "u", SessionID: "s", MessageID: "m", Content: agent.Text("hi"), WhenBusy: memory.Queue})
	if err != nil {
		t.Fatal(err)
	}
	again, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
}

// TestNewerTablesAreRefused: a newer program's rules are not known here.
func TestNewerTablesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	p := mustPort(t, "sqlite:"+path)
	if err := p.Append(t.Context(), "k", memorytest.PortItem{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`INSERT INTO memory_items_version (version) VALUES (7)`); err != nil {
		t.Fatal(err)
	}
	_, err = mustPort(t, "sqlite:"+path).Get(t.Context(), "k")
	if agent.CodeOf(err) != agent.CodeInvalid || !strings.Contains(err.Error(), "version 7") || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("%v", err)
	}
}

// TestForeignDatabaseFileIsLeftAlone: a file that is no database is named and kept.
func TestForeignDatabaseFileIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	text := strings.Repeat("these are my notes\n", 100)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err := mustPort(t, "sqlite:"+path).Append(t.Context(), "k", memorytest.PortItem{ID: "a"})
	if agent.CodeOf(err) != agent.CodeInvalid || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != text {
		t.Errorf("the file was changed: %v", err)
	}
}

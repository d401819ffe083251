package memorytest

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// RunMigrations checks that a store keeps its data and id through later migrations,
// that one that fails leaves the old schema, and that a newer schema is refused unless
// it only adds what older programs may leave empty.
// open opens the same store with another schema than files, which are below schema/.
func RunMigrations(t *testing.T, files fs.FS, open func(schema fs.FS) (memory.ConversationMemoryStore, error)) {
	t.Helper()
	names := Must(fs.Glob(files, "schema/*.sql"))(t)
	with := func(more ...string) fs.FS {
		schema := fstest.MapFS{}
		for _, name := range names {
			schema[path.Base(name)] = &fstest.MapFile{Data: Must(fs.ReadFile(files, name))(t)}
		}
		for _, script := range more {
			schema[fmt.Sprintf("%03d_more.sql", len(schema)+1)] = &fstest.MapFile{Data: []byte(script)}
		}
		return schema
	}
	// Some stores of version 1 have an index that version 2 makes.
	first := append(Must(fs.ReadFile(files, names[0]))(t), "\nCREATE INDEX asks_by_user ON asks (user_id, kind, outcome, created_at);"...)
	_ = Must(open(fstest.MapFS{path.Base(names[0]): {Data: first}}))(t).Close()
	s := Must(open(with()))(t)
	Must(s.Send(t.Context(), Request("s", "m1")))(t)
	id := s.ID()
	_ = s.Close()
	good := "CREATE TABLE extra (x TEXT NOT NULL);\n-- a comment;\nINSERT INTO extra VALUES ('one');"
	_, err := open(with(good, "INSERT INTO extra VALUES ('two'); INSERT INTO missing VALUES (1);"))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%03d_more.sql", len(names)+2)) {
		t.Fatalf("a migration that fails: %v", err)
	}
	// Many processes upgrade at once: each migration runs once, and none was left half done.
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := open(with(good))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			entries, err := s.Inbox(context.Background(), "s/default")
			if s.ID() != id || err != nil || len(entries) != 1 {
				t.Errorf("id %s, was %s; %d entries, %v", s.ID(), id, len(entries), err)
			}
		})
	}
	wg.Wait()
	said := Fails(open(with()))(t, agent.CodeInvalid)
	if !strings.Contains(said, fmt.Sprintf("version %d", len(names)+1)) || !strings.Contains(said, "newer program") {
		t.Fatalf("a newer schema: %v", said)
	}
	expanded := "-- expands\nALTER TABLE threads ADD COLUMN more TEXT NOT NULL DEFAULT 'none'"
	newer := Must(open(with(good, expanded)))(t)
	for i, s := range []memory.ConversationMemoryStore{newer, Must(open(with(good)))(t), newer} {
		Must(s.Send(t.Context(), Request("s", fmt.Sprint("expanded", i))))(t)
	}
	if entries := Must(newer.Inbox(t.Context(), "s/default"))(t); len(entries) != 4 {
		t.Errorf("%d entries after a schema was expanded, want 4", len(entries))
	}
	Must(open(with(good, expanded, "ALTER TABLE threads DROP COLUMN more")))(t)
	for _, schema := range []fs.FS{with(good), with(good, expanded)} {
		if said := Fails(open(schema))(t, agent.CodeInvalid); !strings.Contains(said, "newer program") {
			t.Errorf("a schema that was not only expanded: %s", said)
		}
	}
}

// RunGrowth checks that a turn costs the same on a thread of 100,000 messages and as
// many events as on a new one. grow makes a thread so long without running its turns.
func RunGrowth(t *testing.T, s memory.ConversationMemoryStore, grow func(thread string, n int)) {
	t.Helper()
	turn := func(session, id string) time.Duration {
		start := time.Now()
		Must(s.Send(t.Context(), Request(session, id)))(t)
		if err := RunTurns(t.Context(), s, session+"/default"); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	median := func(d []time.Duration) time.Duration {
		slices.Sort(d)
		return d[len(d)/2]
	}
	turn("long", "first")
	grow("long/default", 100_000)
	var short, long []time.Duration
	for i := range 40 {
		id := strconv.Itoa(i)
		short, long = append(short, turn("new"+id, id)), append(long, turn("long", id))
	}
	a, b := median(short), median(long)
	t.Logf("median turn: %s on a new thread, %s on a long one", a, b)
	if b > 3*a {
		t.Errorf("a turn takes %s on a thread of 100,000 messages, %s on a new one", b, a)
	}
}

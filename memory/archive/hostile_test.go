package archive_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// subAgent is a file of a sub-agent below a parent.
func subAgent(id, parent, root string) sessionfile.Session {
	s := sessionfile.Session{ID: id, Kind: agent.KindSubAgent, ThreadID: agent.SubThreadID("general", id), AgentType: "general", ParentThreadID: parent, RootThreadID: root}
	s.Messages = []agent.Message{{Role: agent.RoleUser, Content: agent.Text("work")}, {Role: agent.RoleAssistant, Content: agent.Text("done")}}
	return s
}

func mainSession(id string) sessionfile.Session {
	s := subAgent(id, "", "")
	s.Kind, s.AgentType, s.ConversationID, s.ThreadID = agent.KindMain, "", agent.DefaultConversation, agent.MainThreadID(id, agent.DefaultConversation)
	return s
}

// hostileImports are folders that would cost far more than they weigh, or that
// contradict themselves. Each is refused in words, what is sound beside it is
// imported, and the store stays sound.
func hostileImports(t *testing.T, open func() memory.ConversationMemoryStore) {
	t.Helper()
	write := func(f sessionfile.Folder, list ...sessionfile.Session) {
		for _, s := range list {
			_, err := f.SaveSession(s)
			ok(t, err)
		}
	}
	thread := func(id string) string { return agent.SubThreadID("general", id) }
	for name, c := range map[string]struct {
		lay  func(f sessionfile.Folder)
		says string
	}{
		"a circle of sub-agents": {func(f sessionfile.Folder) {
			write(f, subAgent("x-1-0123456789ab", thread("y-1-0123456789ab"), "gone/default"), subAgent("y-1-0123456789ab", thread("x-1-0123456789ab"), "gone/default"))
		}, "not there"},
		"its own parent": {func(f sessionfile.Folder) {
			write(f, subAgent("x-1-0123456789ab", thread("x-1-0123456789ab"), "gone/default"))
		}, "not there"},
		"a deep chain": {func(f sessionfile.Folder) {
			write(f, mainSession("deep"))
			parent := "deep/default"
			for i := range 150 {
				id := fmt.Sprintf("x-%d-0123456789ab", i)
				write(f, subAgent(id, parent, "deep/default"))
				parent = thread(id)
			}
		}, "nested more than 100"},
		"very many sub-agents": {func(f sessionfile.Folder) {
			var messages []json.RawMessage
			for _, m := range mainSession("many").Messages {
				raw, err := json.Marshal(m)
				ok(t, err)
				messages = append(messages, raw)
			}
			h := port.MemorySnapshot[json.RawMessage]{"default": messages}
			for i := range 10_100 {
				id := fmt.Sprintf("x-%d-0123456789ab", i)
				h[thread(id)] = messages
			}
			_, err := f.WriteHistory(t.Context(), "many", h)
			ok(t, err)
		}, "more than 10000 sub-agents"},
		"very many images": {func(f sessionfile.Folder) {
			s := mainSession("images")
			var text strings.Builder
			for i := range 10_100 {
				fmt.Fprintf(&text, "%s%064x.png ", agent.ImageScheme, i)
			}
			s.Messages[0].Content = agent.Text(text.String())
			write(f, s)
		}, "more than 10000 images"},
		"a huge file": {func(f sessionfile.Folder) {
			ok(t, os.MkdirAll(f.Dir, 0o755))
			path := filepath.Join(f.Dir, "session_aaaaaaaa.json")
			ok(t, os.WriteFile(path, []byte("{"), 0o600))
			ok(t, os.Truncate(path, 1<<30))
		}, "1024 MiB"},
		"a deep file": {func(f sessionfile.Folder) {
			ok(t, os.MkdirAll(f.Dir, 0o755))
			ok(t, os.WriteFile(filepath.Join(f.Dir, "session_aaaaaaaa.json"), []byte(`{"id":"a","messages":[],"x":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`), 0o600))
		}, "nested more than"},
	} {
		f, s := folder(t), open()
		c.lay(f)
		write(f, mainSession("sound"))
		in, err := archive.Import(t.Context(), s, f, owner, "")
		ok(t, err)
		same(t, name, in.Added, []string{"sound/default"})
		if len(in.Refused) == 0 || !strings.Contains(in.Refused[0].Error(), c.says) {
			t.Errorf("%s: %.300v", name, in.Refused)
		}
		memorytest.Sound(t, s)
	}
}

// hostileRows are exports whose rows were edited so that threads hang on themselves.
func hostileRows(t *testing.T, open func() memory.ConversationMemoryStore) {
	t.Helper()
	clock := memorytest.NewClock()
	a := store(t, clock)
	child := answer(t, a, send(t, a, user, "s1", "default", "hello"), "general")
	for name, edit := range map[string]func(text string) string{
		"child is its own parent": func(text string) string { return strings.ReplaceAll(text, `"s1/default"`, `"`+child+`"`) },
		"depth":                   func(text string) string { return strings.ReplaceAll(text, `"depth": 1`, `"depth": 1000000`) },
		"rows of another": func(text string) string {
			var doc map[string]any
			ok(t, json.Unmarshal([]byte(text), &doc))
			doc["store"].(map[string]any)["thread"].(map[string]any)["parentThreadId"] = child
			raw, err := json.Marshal(doc)
			ok(t, err)
			return string(raw)
		},
	} {
		f, s := folder(t), open()
		_, err := archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{})
		ok(t, err)
		path, err := f.Path(subAgent(strings.TrimPrefix(child, "agent:general:"), "s1/default", "s1/default"))
		ok(t, err)
		raw, err := os.ReadFile(path)
		ok(t, err)
		edited := edit(string(raw))
		if edited == string(raw) {
			t.Fatalf("%s: nothing was edited", name)
		}
		ok(t, os.WriteFile(path, []byte(edited), 0o600))
		in, err := archive.Import(t.Context(), s, f, owner, "")
		ok(t, err)
		if len(in.Refused) == 0 {
			t.Errorf("%s: %+v", name, in)
		}
		memorytest.Sound(t, s)
	}
}

// wrongTypes sets each column of each table of an export to a value of another type. The
// import names table and column, and leaves nothing.
func wrongTypes(t *testing.T, open func() memory.ConversationMemoryStore) {
	t.Helper()
	a, s := store(t, memorytest.NewClock()), open()
	answer(t, a, send(t, a, user, "s1", "default", "hello"), "general")
	records, err := a.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: "s1/default", Below: true})
	ok(t, err)
	tried, odd := 0, []any{map[string]any{"a": 1}, []int{1}, nil, true}
	for i, r := range records {
		var doc struct {
			Version int `json:"version"`
			Tables  map[string]struct {
				Columns []string `json:"columns"`
				Rows    [][]any  `json:"rows"`
			} `json:"tables"`
		}
		ok(t, json.Unmarshal(r.Rows, &doc))
		raw := r.Rows
		for name, table := range doc.Tables {
			cells := table.Rows[len(table.Rows)-1]
			for j, column := range table.Columns {
				right, wrong := cells[j], []any{"tool", odd[tried%len(odd)]}
				if _, text := right.(string); text {
					wrong[0] = 7
				} else if !strings.Contains(column, "price") && column != "blame" {
					wrong = append(wrong, 1.5)
				}
				for _, cells[j] = range wrong {
					planted := slices.Clone(records)
					planted[i].Rows, err = json.Marshal(doc)
					ok(t, err)
					_, err := s.ImportThreads(t.Context(), memory.ImportRequest{Threads: planted})
					if want := fmt.Sprintf("table %s, row %d: column %s must be ", name, len(table.Rows), column); agent.CodeOf(err) != agent.CodeInvalid || !strings.Contains(err.Error(), want) {
						t.Errorf("%s.%s as %v: %v", name, column, cells[j], err)
					}
					tried++
				}
				cells[j] = right
			}
		}
		records[i].Rows = raw
	}
	left, err := s.Threads(t.Context(), memory.ThreadFilter{All: true})
	ok(t, err)
	if len(left) > 0 || tried < 400 {
		t.Errorf("%d values tried, left: %v", tried, left)
	}
	_, err = s.ImportThreads(t.Context(), memory.ImportRequest{Threads: records})
	ok(t, err)
}

func TestHostileImports(t *testing.T) {
	open := func() memory.ConversationMemoryStore { return store(t, memorytest.NewClock()) }
	hostileImports(t, open)
	hostileRows(t, open)
	wrongTypes(t, open)
}

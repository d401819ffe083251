package archive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// showing sends a message with an image and runs its turn.
func showing(t *testing.T, s memory.ConversationMemoryStore, session string, n int) (thread, name string) {
	t.Helper()
	name = memorytest.Must(s.KeepImage(t.Context(), memorytest.Picture(n)))(t)
	r := memory.SendRequest{UserID: user, Profile: "default", SessionID: session, MessageID: "m-" + name[:8], Content: agent.Text("look"), WhenBusy: memory.Queue}
	sent := memorytest.Must(s.Send(t.Context(), memorytest.Showing(r, name)))(t)
	ok(t, memorytest.RunTurns(t.Context(), s, sent.ThreadID))
	return sent.ThreadID, name
}

// roundTrip exports a session and imports it into an empty store.
func roundTrip(t *testing.T, from, to memory.ConversationMemoryStore) {
	t.Helper()
	f := folder(t)
	thread, name := showing(t, from, "s1", 1)
	out := memorytest.Must(archive.Export(t.Context(), from, f, owner, "s1", sessionfile.EventOptions{}))(t)
	same(t, "missing", len(out.MissingImages), 0)
	data := memorytest.Must(os.ReadFile(filepath.Join(f.Dir, "images", name)))(t)
	same(t, "file", data, memorytest.Picture(1))
	in := memorytest.Must(archive.Import(t.Context(), to, f, owner, ""))(t)
	same(t, "imported", [3]int{len(in.Added), len(in.Refused), len(in.MissingImages)}, [3]int{1, 0, 0})
	data = memorytest.Must(to.Image(t.Context(), name))(t)
	same(t, "image", data, memorytest.Picture(1))
	memorytest.Sound(t, to)
	memorytest.Must(to.DeleteTree(t.Context(), memory.DeleteRequest{UserID: user, ThreadID: thread}))(t)
}

// TestImagesTravelWithExports: whoever imports an export sees what was shown.
func TestImagesTravelWithExports(t *testing.T) {
	clock := memorytest.NewClock()
	roundTrip(t, store(t, clock), store(t, clock))
}

// TestImagesOfExportsThatAreNotWhole: without its images an export is imported as
// before, the import says which are missing, and a second import adds them.
func TestImagesOfExportsThatAreNotWhole(t *testing.T) {
	clock := memorytest.NewClock()
	a, b, f := store(t, clock), store(t, clock), folder(t)
	_, name := showing(t, a, "s1", 1)
	_, changed := showing(t, a, "s1", 2)
	memorytest.Must(archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{}))(t)
	path := filepath.Join(f.Dir, "images", name)
	ok(t, os.Rename(path, path+".away"))
	ok(t, os.WriteFile(filepath.Join(f.Dir, "images", changed), memorytest.Picture(3), 0o600))
	in := memorytest.Must(archive.Import(t.Context(), b, f, owner, ""))(t)
	same(t, "added and missing", [2]any{len(in.Added), in.MissingImages}, [2]any{1, []string{name}})
	if len(in.Refused) != 1 || !strings.Contains(in.Refused[0].Error(), "its name tells other bytes") {
		t.Errorf("%v", in.Refused)
	}
	found := memorytest.Must(b.Audit(t.Context(), "s1/default"))(t)
	same(t, "findings", len(found), 2)

	ok(t, os.Rename(path+".away", path))
	_, err := archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{}) // mends the changed one
	ok(t, err)
	in = memorytest.Must(archive.Import(t.Context(), b, f, owner, ""))(t)
	same(t, "again", [4]int{len(in.Added), len(in.Present), len(in.Refused), len(in.MissingImages)}, [4]int{0, 1, 0, 0})
	clock.Advance(48 * time.Hour)
	memorytest.Must(b.KeepImage(t.Context(), memorytest.Picture(4)))(t)
	memorytest.Sound(t, b)
}

// TestImagesOfRemovedFiles go with the last file that refers to them.
func TestImagesOfRemovedFiles(t *testing.T) {
	clock := memorytest.NewClock()
	a, f := store(t, clock), folder(t)
	for _, session := range []string{"s1", "s2"} {
		_, _ = showing(t, a, session, 1)
		memorytest.Must(archive.Export(t.Context(), a, f, owner, session, sessionfile.EventOptions{}))(t)
	}
	for i, left := range []int{1, 0} {
		memorytest.Must(f.DeleteSession([]string{"s1", "s2"}[i]))(t)
		names := memorytest.Must(f.ImageNames())(t)
		same(t, "left", len(names), left)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
	ok(t, os.WriteFile(path, []byte(text), 0o600))
}

const oldMessages = `[{"role":"user","content":"what is 6*7?","timestamp":1740000000000},
 {"id":"a","role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"calculator","arguments":"{}"}}]},
 {"id":"b","role":"tool","tool_call_id":"call_0","content":"42"},
 {"id":"c","role":"assistant","content":"42","timestamp":1740000005000}]`

// TestRow85_OldLayoutsImport: files whose names show 8 characters only, whose
// sessions are numbers of milliseconds, and metadata under __metadata__KEY.
func TestRow85_OldLayoutsImport(t *testing.T) {
	clock := memorytest.NewClock()
	s, f := store(t, clock), folder(t)
	const id = "0195f3a1-7c4e-7b22-9d10-1f2e3d4c5b6a"
	write(t, f.Dir, "session_3d4c5b6a.json", `{"id":"`+id+`","workdir":"/old","startedAt":1740000000000,"lastActiveAt":1740000005000,"tokens":77,"messages":`+oldMessages+`}`)
	write(t, f.Dir, "subagent_session_00000abc.json",
		`{"id":"general-1740000000000-000000000abc","agentType":"general","parentThreadId":"`+id+`/default","rootThreadId":"`+id+`/default","workdir":"/old","messages":`+oldMessages+`}`)
	write(t, f.Dir, "subagent_session_orphan01.json", `{"id":"general-orphan01","workdir":"/old","messages":`+oldMessages+`}`)
	write(t, f.Dir, "session_broken00.json", `{"id":"broken00","messages":[`)
	write(t, f.Dir, "sessions/1740000000001/history.json", `{"cli":`+oldMessages+`,"agent:general:g-1":`+oldMessages+`,
	 "__metadata__cli":[{"topic":"numbers","totalTokens":9,"createdAt":1740000000000}]}`)
	in := memorytest.Must(archive.Import(t.Context(), s, f, owner, ""))(t)
	same(t, "added", in.Added, []string{id + "/default", "agent:general:general-1740000000000-000000000abc", "1740000000001/cli", "agent:general:g-1"})
	same(t, "refused", len(in.Refused), 2)
	reasons := in.Refused[0].Error() + in.Refused[1].Error()
	for _, want := range []string{"session_broken00.json", "general-orphan01", "parentThreadId"} {
		if !strings.Contains(reasons, want) {
			t.Errorf("%q does not say %q", reasons, want)
		}
	}
	memorytest.Sound(t, s)
	for thread, want := range map[string]string{id + "/default": "", "1740000000001/cli": "numbers"} {
		th := memorytest.Must(s.Thread(t.Context(), user, thread))(t)
		same(t, "topic", th.Topic, want)
		ms := memorytest.Must(s.Messages(t.Context(), thread, 0, 0))(t)
		same(t, "messages", [2]any{len(ms), ms[3].Content.String()}, [2]any{4, "42"})
		same(t, "time", ms[0].Timestamp.UnixMilli(), int64(1740000000000))
		children := memorytest.Must(s.Children(t.Context(), thread))(t)
		same(t, "children", len(children), 1)
		same(t, "state", [2]any{th.Status, th.Profile}, [2]any{agent.ThreadCompleted, "default"})
		// The conversation goes on.
		p := memorytest.Must(agent.ParseThreadID(thread))(t)
		answer(t, s, send(t, s, user, p.SessionID, p.ConversationID, "next"), "")
	}
	tokens := memorytest.Must(s.Thread(t.Context(), user, id+"/default"))(t)
	same(t, "tokens", tokens.TotalTokens, 77+5)
	memorytest.Sound(t, s)
	found := memorytest.Must(s.Threads(t.Context(), memory.ThreadFilter{UserID: user, Workdir: "/old"}))(t)
	same(t, "by folder", len(found), 1)
}

// TestRow89_ImportCutAtEveryByte: a file that was cut is whole or reported; the
// file beside it is imported in any case.
func TestRow89_ImportCutAtEveryByte(t *testing.T) {
	clock := memorytest.NewClock()
	a := store(t, clock)
	answer(t, a, send(t, a, user, "s1", "default", "hello"), "")
	record := memorytest.Must(a.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: "s1/default"}))(t)
	session := memorytest.Must(archive.Session(record[0]))(t)
	f := folder(t)
	path := memorytest.Must(f.SaveThread(session))(t)
	whole := memorytest.Must(os.ReadFile(path))(t)
	write(t, f.Dir, "session_3d4c5b6a.json", `{"id":"0195f3a1-7c4e-7b22-9d10-1f2e3d4c5b6a","messages":`+oldMessages+`}`)
	s := store(t, clock)
	for n := 0; n < len(whole)-1; n += 1 + n/40 {
		ok(t, os.WriteFile(path, whole[:n], 0o600))
		in := memorytest.Must(archive.Import(t.Context(), s, f, owner, ""))(t)
		if len(in.Added)+len(in.Present) != 1 || len(in.Refused) != 1 || !strings.Contains(in.Refused[0].Name, filepath.Base(path)) {
			t.Fatalf("cut at %d of %d: %+v", n, len(whole), in)
		}
		if left, err := os.ReadFile(path); err != nil || len(left) != n {
			t.Fatalf("the damaged file was touched: %d bytes, %v", len(left), err)
		}
	}
	ok(t, os.WriteFile(path, whole, 0o600))
	in := memorytest.Must(archive.Import(t.Context(), s, f, owner, ""))(t)
	same(t, "whole", [2]int{len(in.Added), len(in.Refused)}, [2]int{1, 0})
}

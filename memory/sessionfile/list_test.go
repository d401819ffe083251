package sessionfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// TestRow83_ListSessions: both kinds, told apart; main ones unless all are asked
// for; newest activity first; by workdir.
func TestRow83_ListSessions(t *testing.T) {
	f := folder(t)
	elsewhere := session("elsewhere", 4)
	elsewhere.Workdir = "/other/"
	save(t, f, session("old", 1), session("new", 9), elsewhere, child(agentID, "old/default", "old/default", 1, 20))
	write(t, filepath.Join(f.Dir, "notes.json"), "{}")
	write(t, filepath.Join(f.Dir, "session_.json"), "{}")
	list := func(o sessionfile.ListOptions) []string {
		got, broken, err := f.ListSessions(o)
		ok(t, err)
		same(t, "broken", len(broken), 0)
		return ids(got)
	}
	same(t, "main", list(sessionfile.ListOptions{}), []string{"new", "elsewhere", "old"})
	same(t, "all", list(sessionfile.ListOptions{All: true}), []string{agentID, "new", "elsewhere", "old"})
	same(t, "workdir", list(sessionfile.ListOptions{Workdir: "/other"}), []string{"elsewhere"})
	same(t, "workdir, all", list(sessionfile.ListOptions{Workdir: "/w/.", All: true}), []string{agentID, "new", "old"})
	got, _, err := f.ListSessions(sessionfile.ListOptions{All: true})
	ok(t, err)
	same(t, "kinds", []agent.ThreadKind{got[0].Kind, got[1].Kind}, []agent.ThreadKind{agent.KindSubAgent, agent.KindMain})
	same(t, "thread", got[0].ThreadID, "agent:general:"+agentID)
	same(t, "counted, not held", []int{got[1].MessageCount, len(got[1].Messages)}, []int{2, 0})
	same(t, "last activity", got[1].LastActiveAt, noon.Add(9*time.Minute))
}

// TestRow84_LoadSession: main, then sub-agent; a prefix restricts; what is
// stored must have the id.
func TestRow84_LoadSession(t *testing.T) {
	f := folder(t)
	both := "both-00000001"
	sub := child(both, "x/default", "x/default", 1, 2)
	sub.Topic = "sub"
	save(t, f, session(both, 1), sub, child(agentID, "x/default", "x/default", 1, 2))
	load := func(id string) (string, bool) {
		t.Helper()
		s, found, err := f.LoadSession(id)
		ok(t, err)
		return string(s.Kind), found
	}
	for id, want := range map[string]string{both: "main", both + "/default": "main", "agent:general:" + both: "subagent", agentID: "subagent", "agent:general:" + agentID: "subagent"} {
		if kind, found := load(id); !found || kind != want {
			t.Errorf("%s: %t, %s", id, found, kind)
		}
	}
	for _, id := range []string{"none", "x/default", both + "/other", "agent:other:" + agentID, "agent:general:none", "00000009"} {
		if _, found := load(id); found {
			t.Errorf("%s was found", id)
		}
	}
	for prefix, want := range map[string]string{"session": "", "subagent_session": "sub"} {
		if s, found, err := f.LoadSessionAs(prefix, both); err != nil || !found || s.Topic != want {
			t.Errorf("%s: %+v, %t, %v", prefix, s.Topic, found, err)
		}
	}
	if _, found, err := f.LoadSessionAs("session", agentID); found || err != nil {
		t.Errorf("a sub-agent among the main ones: %t, %v", found, err)
	}
	if _, found, err := f.LoadSessionAs("chat", both); found || err != nil {
		t.Errorf("another prefix: %t, %v", found, err)
	}
	// A file under this name that holds another session.
	other := sessionfile.Folder{Dir: t.TempDir()}
	path := memorytest.Must(sessionfile.GetSessionFilePath("mine", other.Dir, ""))(t)
	data := memorytest.Must(json.Marshal(session("theirs", 1)))(t)
	write(t, path, string(data))
	if s, found, err := other.LoadSession("mine"); found || err != nil {
		t.Errorf("another id: %+v, %t, %v", s.ID, found, err)
	}
	if list, broken, err := other.ListSessions(sessionfile.ListOptions{}); err != nil || len(list) != 0 || len(broken) != 1 {
		t.Errorf("%v, %v, %v", list, broken, err)
	}
}

// old is a file as older programs wrote it.
func old(id string, minute int) string {
	ms := noon.Add(time.Duration(minute) * time.Minute).UnixMilli()
	data, _ := json.Marshal(map[string]any{
		"id": id, "workdir": "/w", "startedAt": ms, "lastActiveAt": ms, "tokens": 42,
		"messages": []any{map[string]any{"role": "user", "content": "hi", "timestamp": ms}},
	})
	return string(data)
}

// TestRow85_OldLayouts: the bare last 8 characters as name, timestamps as ids
// and as times, a total of tokens.
func TestRow85_OldLayouts(t *testing.T) {
	f := folder(t)
	const stamp = "1716400000000"
	write(t, filepath.Join(f.Dir, "session_3d4c5b6a.json"), old("aaaaaaaa-7c4e-7b22-9d10-1f2e3d4c5b6a", 1))
	write(t, filepath.Join(f.Dir, "session_00000000.json"), old(stamp, 2))
	write(t, filepath.Join(f.Dir, "subagent_session_99999999.json"), old("sub-99999999", 3))
	list, broken, err := f.ListSessions(sessionfile.ListOptions{All: true})
	ok(t, err)
	same(t, "broken", len(broken), 0)
	same(t, "listed", ids(list), []string{"sub-99999999", stamp, "aaaaaaaa-7c4e-7b22-9d10-1f2e3d4c5b6a"})
	same(t, "main only", list[0].Kind, agent.KindSubAgent)
	for id, want := range map[string]string{
		stamp: stamp, "00000000": stamp, "3d4c5b6a": "aaaaaaaa-7c4e-7b22-9d10-1f2e3d4c5b6a",
		"aaaaaaaa-7c4e-7b22-9d10-1f2e3d4c5b6a": "aaaaaaaa-7c4e-7b22-9d10-1f2e3d4c5b6a", "99999999": "sub-99999999", "sub-99999999": "sub-99999999",
	} {
		s, found, err := f.LoadSession(id)
		ok(t, err)
		if !found || s.ID != want || s.Tokens.Total != 42 || len(s.Messages) != 1 || s.LastActiveAt.IsZero() || s.Messages[0].Timestamp.Year() != 2026 {
			t.Errorf("%s: %+v, %t", id, s, found)
		}
	}
	// The full id is compared, not its end.
	if _, found, err := f.LoadSession("bbbbbbbb-7c4e-7b22-9d10-1f2e3d4c5b6a"); found || err != nil {
		t.Errorf("an id with the same end: %t, %v", found, err)
	}
	// A new save has the new name; the old file stays, and only one is listed.
	s, _, err := f.LoadSession(stamp)
	ok(t, err)
	s.Messages = append(s.Messages, msg("b", agent.RoleAssistant, 7))
	s.LastActiveAt = noon.Add(7 * time.Minute)
	save(t, f, s)
	same(t, "files", len(names(t, f.Dir)), 4)
	list, _, err = f.ListSessions(sessionfile.ListOptions{})
	ok(t, err)
	same(t, "listed", ids(list), []string{stamp, "aaaaaaaa-7c4e-7b22-9d10-1f2e3d4c5b6a"})
	same(t, "the newer one counts", list[0].MessageCount, 2)
	s, _, err = f.LoadSession(stamp)
	ok(t, err)
	same(t, "loaded", len(s.Messages), 2)

	// A new session with the same end: both are found by their ids, the short
	// one says that it is not enough, the one with the hash is.
	twin := "bbbbbbbb-7c4e-7b22-9d10-1f2e3d4c5b6a"
	save(t, f, session(twin, 1))
	if _, _, err := f.LoadSession("3d4c5b6a"); agent.CodeOf(err) != agent.CodeConflict || !strings.Contains(err.Error(), twin) {
		t.Errorf("an ambiguous short id: %v", err)
	}
	short := memorytest.Must(sessionfile.ShortID(twin))(t)
	for _, id := range []string{twin, short} {
		if s, found, err := f.LoadSession(id); err != nil || !found || s.ID != twin {
			t.Errorf("%s: %s, %t, %v", id, s.ID, found, err)
		}
	}
	removed := memorytest.Must(f.DeleteSession(stamp))(t)
	same(t, "both files of one session", len(removed), 2)
}

// TestRow87_LatestIsNeverASubAgent, and may be asked for by workdir.
func TestRow87_LatestIsNeverASubAgent(t *testing.T) {
	f := folder(t)
	if _, found, err := f.LatestSession(""); found || err != nil {
		t.Errorf("of none: %t, %v", found, err)
	}
	elsewhere := session("elsewhere", 3)
	elsewhere.Workdir = "/other"
	save(t, f, session("one", 1), elsewhere, child(agentID, "one/default", "one/default", 1, 50))
	for workdir, want := range map[string]string{"": "elsewhere", "/w": "one"} {
		if s, found, err := f.LatestSession(workdir); err != nil || !found || s.ID != want || len(s.Messages) != 2 {
			t.Errorf("%q: %s, %t, %v", workdir, s.ID, found, err)
		}
	}
}

// TestRow89_BrokenFiles are skipped and reported; the others are there.
func TestRow89_BrokenFiles(t *testing.T) {
	f := folder(t)
	save(t, f, session("whole-one", 1), session("whole-two", 2))
	for name, text := range map[string]string{
		"session_aaaaaaaa.json": `{"id":"x-aaaaaaaa","messages":[{"id":"m"`, "session_bbbbbbbb.json": "", "session_cccccccc.json": "\xff\xfe", "session_dddddddd.json": "[]",
		"session_eeeeeeee.json": old("../../etc/eeeeeeee", 1), "session_ffffffff.json": old("x-gggggggg", 1), "session_hhhhhhhh.json": `{"messages":[]}`,
		"subagent_session_iiiiiiii.json": `{"id":"x-iiiiiiii","kind":"main","threadId":"x-iiiiiiii/two"}`, "session_kkkkkkkk.json": `{"id":"x-kkkkkkkk","messages":[{"role":"wizard"}]}`,
	} {
		write(t, filepath.Join(f.Dir, name), text)
	}
	ok(t, os.Mkdir(filepath.Join(f.Dir, "session_llllllll.json"), 0o700))
	ok(t, os.Symlink("/etc/hostname", filepath.Join(f.Dir, "session_mmmmmmmm.json")))
	before := names(t, f.Dir)
	list, broken, err := f.ListSessions(sessionfile.ListOptions{All: true})
	ok(t, err)
	same(t, "listed", ids(list), []string{"whole-two", "whole-one"})
	same(t, "broken", len(broken), 11)
	for _, b := range broken {
		if b.Err == nil || !strings.HasPrefix(b.Path, f.Dir) {
			t.Errorf("%+v", b)
		}
	}
	if s, found, err := f.LoadSession("whole-one"); err != nil || !found || s.ID != "whole-one" {
		t.Errorf("%t, %v", found, err)
	}
	if _, found, err := f.LoadSession("x-aaaaaaaa"); found || err == nil || !strings.Contains(err.Error(), "session_aaaaaaaa.json") {
		t.Errorf("a broken file is not simply missing: %t, %v", found, err)
	}
	same(t, "reading changes nothing", names(t, f.Dir), before)
}

// TestRow89_TornLastLine: in a file of lines it costs only that line.
func TestRow89_TornLastLine(t *testing.T) {
	whole := []string{`{"id":"x-aaaaaaaa","workdir":"/w","startedAt":"2026-03-01T12:00:00Z","lastActiveAt":"2026-03-01T12:00:00Z","tokens":1}`,
		`{"id":"a","role":"user","content":"one"}`, `{"id":"b","role":"assistant","content":"two"}`, `{"id":"c","role":"user","content":"three"}`}
	text := strings.Join(whole, "\n") + "\n"
	for n := len(whole[0]) + 1; n <= len(text); n++ {
		f := sessionfile.Folder{Dir: t.TempDir()}
		write(t, filepath.Join(f.Dir, "session_aaaaaaaa.jsonl"), text[:n])
		list, broken, err := f.ListSessions(sessionfile.ListOptions{})
		if err != nil || len(broken) > 0 || len(list) != 1 {
			t.Fatalf("cut at %d: %v, %v", n, broken, err)
		}
		complete := 0
		for i := range whole[1:] {
			if strings.HasPrefix(text[:n], strings.Join(whole[:i+2], "\n")) {
				complete++
			}
		}
		torn := 0
		if n > len(strings.Join(whole[:complete+1], "\n"))+1 {
			torn = 1
		}
		if list[0].MessageCount != complete || list[0].Lost != torn {
			t.Errorf("cut at %d: %d messages, %d lost; want %d and %d", n, list[0].MessageCount, list[0].Lost, complete, torn)
		}
		if s, found, err := f.LoadSession("x-aaaaaaaa"); err != nil || !found || len(s.Messages) != complete {
			t.Errorf("cut at %d: %d messages, %t, %v", n, len(s.Messages), found, err)
		}
	}
	f := sessionfile.Folder{Dir: t.TempDir()}
	write(t, filepath.Join(f.Dir, "session_aaaaaaaa.jsonl"), strings.Join(slices.Insert(slices.Clone(whole), 2, `{"id":"`), "\n"))
	if list, broken, err := f.ListSessions(sessionfile.ListOptions{}); err != nil || len(list) != 0 || len(broken) != 1 {
		t.Errorf("a broken line in the middle: %v, %v, %v", list, broken, err)
	}
}

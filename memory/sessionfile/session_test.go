package sessionfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// TestRow37_ProfilesAreApart, and their folder appears with the first message.
func TestRow37_ProfilesAreApart(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	dir := func(profile string) sessionfile.Folder {
		d := memorytest.Must(sessionfile.ProfileDir(home, profile))(t)
		return sessionfile.Folder{Dir: d}
	}
	work, private := dir("work"), dir("private")
	for range 2 {
		list, broken, err := work.ListSessions(sessionfile.ListOptions{All: true})
		if err != nil || len(list)+len(broken) > 0 {
			t.Fatalf("%v, %v, %v", list, broken, err)
		}
		empty := session(sessionID, 1)
		empty.Messages = nil
		if path, err := work.SaveSession(empty); path != "" || err != nil {
			t.Fatalf("%q, %v", path, err)
		}
		if _, found, err := work.LoadSession(sessionID); found || err != nil {
			t.Fatalf("%t, %v", found, err)
		}
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a folder without a message: %v", err)
	}
	save(t, work, session(sessionID, 1))
	if _, found, err := private.LoadSession(sessionID); found || err != nil {
		t.Errorf("another profile's session: %t, %v", found, err)
	}
	for _, profile := range []string{"", "..", "a/b", "../x", "a\x00", "ü", strings.Repeat("p", 65), "../a..b"} {
		if d, err := sessionfile.ProfileDir(home, profile); agent.CodeOf(err) != agent.CodeInvalid {
			t.Errorf("profile %q: %s, %v", profile, d, err)
		}
	}
	if info, err := os.Stat(work.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestRow78_SessionPrefix: "session" unless it is set.
func TestRow78_SessionPrefix(t *testing.T) {
	f := folder(t)
	custom := sessionfile.Folder{Dir: f.Dir, Prefix: "chat"}
	save(t, f, session("session-one", 1))
	save(t, custom, session("session-two", 2), child(agentID, "session-two/default", "session-two/default", 1, 3))
	for name, pattern := range map[string]string{"session": `^session_sion-one-[0-9a-f]{8}\.json$`, "chat": `^chat_sion-two-[0-9a-f]{8}\.json$`, "child": `^subagent_chat_2c3d4e5f-[0-9a-f]{8}\.json$`} {
		matched := 0
		for _, n := range names(t, f.Dir) {
			if ok, err := regexp.MatchString(pattern, n); err == nil && ok {
				matched++
			}
		}
		if matched != 1 {
			t.Errorf("%s: %d of %v", name, matched, names(t, f.Dir))
		}
	}
	for _, c := range []struct {
		f    sessionfile.Folder
		want []string
	}{{f, []string{"session-one"}}, {custom, []string{agentID, "session-two"}}} {
		list, broken, err := c.f.ListSessions(sessionfile.ListOptions{All: true})
		ok(t, err)
		same(t, "listed", ids(list), c.want)
		same(t, "broken", len(broken), 0)
	}
	// A prefix that begins like another one.
	longer := sessionfile.Folder{Dir: f.Dir, Prefix: "session_x"}
	save(t, longer, session("session-three", 4))
	list, broken, err := f.ListSessions(sessionfile.ListOptions{})
	ok(t, err)
	same(t, "listed", ids(list), []string{"session-one"})
	same(t, "broken", len(broken), 0)
	for _, prefix := range []string{"..", "a/b", "/abs", "a\x00b", "ü", strings.Repeat("p", 65), "subagent_session"} {
		memorytest.Fails((sessionfile.Folder{Dir: f.Dir, Prefix: prefix}).SaveSession(session("x", 1)))(t, agent.CodeInvalid)
	}
}

// TestRow79_SubAgentPrefix and row 86: children, and theirs, lie flat under one
// prefix of their own.
func TestRow79_SubAgentPrefix(t *testing.T) {
	f := folder(t)
	root := sessionID + "/default"
	first := agent.SubThreadID("general", agentID)
	grand := "general-1772366400001-ffffffffffff"
	save(t, f, session(sessionID, 1), child(agentID, root, root, 1, 2), child(grand, first, root, 2, 3))
	want := []string{"session_", "subagent_session_", "subagent_session_"}
	files := names(t, f.Dir)
	same(t, "number of files", len(files), 3)
	for i, n := range files {
		if !strings.HasPrefix(n, want[i]) || strings.Contains(strings.TrimPrefix(n, want[i]), "session") {
			t.Errorf("%s does not begin with %s", n, want[i])
		}
	}
}

// TestRow80_GetSessionFilePath: distinct ids have distinct files, tricks are refused.
func TestRow80_GetSessionFilePath(t *testing.T) {
	path := func(id string) string {
		p := memorytest.Must(sessionfile.GetSessionFilePath(id, "/dir", "session"))(t)
		return p
	}
	same(t, "path", path("12345678-aaaa-bbbb-cccc-0123456789ab"), "/dir/session_456789ab-f4c9de67.json")
	for _, pair := range [][2]string{
		{"aaaaaaaa-1111-7000-8000-0123456789ab", "bbbbbbbb-2222-7000-8000-0123456789ab"}, // the last 8
		{"aaaaaaaa-1111-7abc-8000-0123456789ab", "aaaaaaaa-1111-7abc-8000-9876543210cd"}, // the third part
		{"session", "Session"}, {"a", "b"}, {"1716400000000", "1616400000000"},
	} {
		if path(pair[0]) == path(pair[1]) {
			t.Errorf("%v share the file %s", pair, path(pair[0]))
		}
	}
	for _, id := range []string{
		"", ".", "..", "../x", "a/b", "/etc/passwd", `a\b`, `C:\x`, "..b", "a\x00b", "x\n", " x", "x ", "-x", ".x", strings.Repeat("x", sessionfile.MaxIDLength+1),
		"\uff0e\uff0e\uff0fx", "caf\u00e9", "cafe\u0301", "\u212A", "a\u200b", "a\u202eb", "\xff", "%2e%2e%2f", "~", "con:", "a*",
	} {
		for _, f := range []func() error{
			func() error { _, err := sessionfile.GetSessionFilePath(id, "/dir", "session"); return err },
			func() error { _, err := sessionfile.ShortID(id); return err },
			func() error { _, err := folder(t).SaveSession(session(id, 1)); return err },
			func() error { _, err := folder(t).WriteHistory(t.Context(), id, nil); return err },
			func() error { _, err := folder(t).ReadHistory(t.Context(), id); return err },
			func() error {
				_, err := folder(t).WriteEvents(t.Context(), id, nil, sessionfile.EventOptions{Enabled: true})
				return err
			},
			func() error { _, err := folder(t).HTTPLog(id); return err },
			func() error {
				if id == "a/b" { // the id of a thread
					_, _, err := folder(t).LoadSession("../b")
					return err
				}
				_, _, err := folder(t).LoadSession(id)
				return err
			},
			func() error {
				if id == "a/b" {
					return agent.Errorf(agent.CodeInvalid, "")
				}
				_, err := folder(t).DeleteSession(id)
				return err
			},
		} {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(f()))
		}
	}
	for _, prefix := range []string{"../x", "a/b", "a\x00", "ü"} {
		memorytest.Fails(sessionfile.GetSessionFilePath("x", "/dir", prefix))(t, agent.CodeInvalid)
	}
	for _, conversation := range []string{"../x", "a/b", "a\x00", "ü", strings.Repeat("x", 65)} {
		memorytest.Fails(sessionfile.GetConversationFilePath("x", conversation, "/dir", ""))(t, agent.CodeInvalid)
	}
}

// TestRow81_SaveSession: the whole content comes back, and stands in the file
// under the promised names.
func TestRow81_SaveSession(t *testing.T) {
	f := folder(t)
	s := session(sessionID, 5)
	s.Tokens = sessionfile.Tokens{Prompt: 10, Completion: 3, Total: 13}
	s.Topic = "Wetter <ü> & \u2028"
	s.Store = json.RawMessage(`{"turns":[1,2],"big":9007199254740993}`)
	call := msg("c", agent.RoleAssistant, 6)
	call.Content, call.ToolCalls = agent.NullContent(), []agent.Call{agent.NewCall("call_1", "lookup", `{"q":"<&>"}`)}
	result := msg("d", agent.RoleTool, 7)
	result.ToolCallID, result.Name, result.Status = "call_1", "lookup", agent.CallSuccess
	parts := msg("e", agent.RoleUser, 8)
	parts.Content = agent.Content{Parts: []agent.Part{{Type: "text", Text: "look"}, {Type: "image_url", ImageURL: &agent.ImageURL{URL: "https://x/y.png"}}}}
	s.Messages = append(s.Messages, call, result, parts)
	path := memorytest.Must(f.SaveSession(s))(t)
	data := memorytest.Must(os.ReadFile(path))(t)
	var fields map[string]json.RawMessage
	ok(t, json.Unmarshal(data, &fields))
	for _, name := range []string{"id", "messages", "workdir", "startedAt", "lastActiveAt", "tokens", "threadId", "kind"} {
		if len(fields[name]) == 0 {
			t.Errorf("no field %s in %s", name, data)
		}
	}
	got, found, err := f.LoadSession(sessionID)
	ok(t, err)
	same(t, "found", found, true)
	want := s
	want.Kind, want.ThreadID, want.ConversationID = agent.KindMain, sessionID+"/default", "default"
	want.StartedAt, want.LastActiveAt = s.Messages[0].Timestamp, parts.Timestamp
	var a, b any
	ok(t, errors.Join(json.Unmarshal(got.Store, &a), json.Unmarshal(want.Store, &b)))
	same(t, "store", a, b)
	if !strings.Contains(string(got.Store), "9007199254740993") {
		t.Errorf("store: %s", got.Store)
	}
	got.Store, want.Store = nil, nil
	same(t, "session", got, want)

	empty := s
	empty.Messages = nil
	if p, err := f.SaveSession(empty); p != "" || err != nil {
		t.Errorf("an empty session: %q, %v", p, err)
	}
	if again, err := os.ReadFile(path); err != nil || string(again) != string(data) {
		t.Errorf("an empty session changed the file: %v", err)
	}
	for _, bad := range []sessionfile.Session{
		{ID: "x", ThreadID: "y/default"}, {ID: "x", ThreadID: "x/two", ConversationID: "three"}, {ID: "x", Kind: "other"},
		{ID: "x", ThreadID: "agent:general:y"}, {ID: "x", AgentType: "other", ThreadID: "agent:general:x"}, {ID: "x", ThreadID: "../x"},
	} {
		bad.Messages = s.Messages
		memorytest.Fails(f.SaveSession(bad))(t, agent.CodeInvalid)
	}
}

// TestRow81_OtherFilesAreNotOverwritten: another session's file, a broken one, a
// link out of the folder.
func TestRow81_OtherFilesAreNotOverwritten(t *testing.T) {
	f := folder(t)
	path := memorytest.Must(f.Path(session(sessionID, 1)))(t)
	foreign := `{"id":"another","messages":[],"workdir":"","startedAt":"2026-03-01T12:00:00Z","lastActiveAt":"2026-03-01T12:00:00Z","tokens":0}`
	write(t, path, foreign)
	memorytest.Fails(f.SaveSession(session(sessionID, 1)))(t, agent.CodeConflict)
	if text, err := os.ReadFile(path); err != nil || string(text) != foreign {
		t.Errorf("it was changed: %s, %v", text, err)
	}

	write(t, path, `{"id":"`)
	f.Now = func() time.Time { return noon }
	var d *port.DamagedError
	if _, err := f.SaveSession(session(sessionID, 1)); !errors.As(err, &d) || d.SetAside != path+".damaged-20260301T120000.000000000Z" {
		t.Fatalf("a broken file: %v", err)
	}
	if text, err := os.ReadFile(d.SetAside); err != nil || string(text) != `{"id":"` {
		t.Errorf("set aside was %s, %v", text, err)
	}
	save(t, f, session(sessionID, 1))
	write(t, path, `{"id":"`)
	reports := 0
	f.OnDamage = func(*port.DamagedError) { reports++ }
	save(t, f, session(sessionID, 1))
	same(t, "reports", reports, 1)

	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "secret")
	ok(t, os.Remove(path))
	ok(t, os.Symlink(secret, path))
	memorytest.Fails(f.SaveSession(session(sessionID, 1)))(t, agent.CodeInvalid)
	if text, err := os.ReadFile(secret); err != nil || string(text) != "secret" {
		t.Errorf("the link's target: %s, %v", text, err)
	}
	ok(t, os.Remove(path))
	ok(t, syscall.Mkfifo(path, 0o600))
	if _, _, err := f.LoadSession(sessionID); agent.CodeOf(err) != agent.CodeInvalid {
		t.Errorf("a pipe: %v", err)
	}
}

// TestRow82_PrefixIsInTheNameOnly: the id in the file stays what it is.
func TestRow82_PrefixIsInTheNameOnly(t *testing.T) {
	f := folder(t)
	root := sessionID + "/default"
	save(t, f, session(sessionID, 1), child(agentID, root, root, 1, 2))
	list, _, err := f.ListSessions(sessionfile.ListOptions{All: true})
	ok(t, err)
	same(t, "ids", ids(list), []string{agentID, sessionID})
	for _, i := range list {
		data := memorytest.Must(os.ReadFile(i.Path))(t)
		if strings.Contains(string(data), "session_") {
			t.Errorf("%s", data)
		}
	}
}

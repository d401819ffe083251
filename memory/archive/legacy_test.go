package archive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
)

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

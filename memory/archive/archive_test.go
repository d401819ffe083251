package archive_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/sqlite"
)

const user = "alice"

var owner = archive.Owner{UserID: user, Profile: "default"}

func ok(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

// store is an empty one; tests move its clock.
func store(t *testing.T, clock *memorytest.Clock) *sqlite.Store {
	t.Helper()
	s := memorytest.Must(sqlite.OpenMemory(t.Context(), sqlite.Options{Clock: clock.Now}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func folder(t *testing.T) sessionfile.Folder {
	t.Helper()
	return sessionfile.Folder{Dir: filepath.Join(t.TempDir(), "profiles", "default")}
}

// send puts a message into a conversation and returns its thread.
func send(t *testing.T, s *sqlite.Store, userID, session, conversation, text string) string {
	t.Helper()
	r := memorytest.Must(s.Send(t.Context(), memory.SendRequest{
		UserID: userID, Profile: "default", SessionID: session, ConversationID: conversation, MessageID: "m-" + text,
		Content: agent.Text(text), Workdir: "/w", WhenBusy: memory.Queue,
	}))(t)
	return r.ThreadID
}

// answer runs the thread's turn: with a delegation first if agentType is set.
func answer(t *testing.T, s *sqlite.Store, thread, agentType string) (child string) {
	t.Helper()
	ctx := t.Context()
	claim := memorytest.Must(s.TakeNext(ctx, memory.TakeRequest{ThreadID: thread, RunID: "run"}))(t)
	turn, step := claim.Turn, 1
	reply := func(r agent.ModelReply) memory.StoredReply {
		st := memorytest.Must(s.BeginModel(ctx, memory.ModelBegin{ThreadID: thread, TurnID: turn.ID, Step: step, Fence: memory.Fence{Scope: fmt.Sprint(turn.ID, step), Number: 1}}))(t)
		r.Usage = agent.Usage{PromptTokens: 3, CompletionTokens: 2, Price: 0.5}
		stored := memorytest.Must(s.SaveReply(ctx, memory.ReplyRecord{ThreadID: thread, TurnID: turn.ID, Step: step, Attempt: st.Attempt, Reply: r, Delegations: []bool{true}}))(t)
		return stored
	}
	if agentType != "" {
		call := reply(agent.ModelReply{Calls: []agent.Call{agent.NewCall("x", agent.ToolAssignTask, `{"agent":"`+agentType+`"}`)}}).Calls[0]
		d := memorytest.Must(s.OpenDelegation(ctx, memory.DelegationRequest{
			ThreadID: thread, TurnID: turn.ID, CallID: call.ID, Config: agent.SpecialistAgentConfig{Name: agentType}, Task: "look", Limits: memory.DelegationLimits{MaxDepth: 3},
		}))(t)
		child = d.ChildThread
		answer(t, s, child, "")
		memorytest.Must(s.TakeChildResult(ctx, memory.ChildResultRequest{ThreadID: thread, TurnID: turn.ID, CallID: call.ID}))(t)
		memorytest.Must(s.SaveToolRound(ctx, memory.RoundRequest{ThreadID: thread, TurnID: turn.ID, Step: step}))(t)
		step++
	}
	reply(agent.ModelReply{Content: "answer of " + thread})
	memorytest.Must(s.CloseTurn(ctx, memory.CloseRequest{ThreadID: thread, TurnID: turn.ID, Outcome: agent.ThreadCompleted, Step: step}))(t)
	return child
}

// everything is all that readers of a store see.
func everything(t *testing.T, s *sqlite.Store) string {
	t.Helper()
	ctx := t.Context()
	threads := memorytest.Must(s.Threads(ctx, memory.ThreadFilter{All: true}))(t)
	var out []any
	add := func(v any, err error) {
		t.Helper()
		ok(t, err)
		out = append(out, v)
	}
	for _, th := range threads {
		add(th, nil)
		add(s.Messages(ctx, th.ID, 0, 0))
		add(s.Events(ctx, th.ID, 0, 0))
		add(s.Stream(ctx, th.ID))
		add(s.Tasks(ctx, th.ID))
		add(s.Inbox(ctx, th.ID))
		add(s.Children(ctx, th.ID))
		add(s.Approvals(ctx, memory.ApprovalFilter{ThreadID: th.ID}))
		add(s.Spent(ctx, th.RootThreadID))
		turns, err := s.TurnsOf(ctx, th.ID)
		add(turns, err)
		for _, turn := range turns {
			add(s.Steps(ctx, turn.ID))
		}
		calls, err := s.ToolCalls(ctx, th.ID)
		add(calls, err)
		for _, c := range calls {
			add(s.ToolOutput(ctx, c.ID))
		}
	}
	text := memorytest.Must(json.MarshalIndent(out, "", " "))(t)
	return string(text)
}

// TestRow90_ExportAndImport: an export imported into an empty store gives an equal
// store, children linked; what waited and what ran has ended.
func TestRow90_ExportAndImport(t *testing.T) {
	clock := memorytest.NewClock()
	a, f := store(t, clock), folder(t)
	first := send(t, a, user, "s1", "default", "hello")
	child := answer(t, a, first, "general")
	clock.Advance(time.Minute)
	second := send(t, a, user, "s1", "other", "and here")
	answer(t, a, second, "")
	waits := send(t, a, user, "s2", "default", "nobody came")
	open := send(t, a, user, "s3", "default", "at work")
	memorytest.Must(a.TakeNext(t.Context(), memory.TakeRequest{ThreadID: open, RunID: "run"}))(t)
	for _, id := range []string{"s1", waits, open} {
		exported := memorytest.Must(archive.Export(t.Context(), a, f, owner, id, sessionfile.EventOptions{Enabled: true}))(t)
		if len(exported.Files) < 3 {
			t.Errorf("%s: %v", id, exported)
		}
	}
	names := map[string]bool{}
	entries := memorytest.Must(os.ReadDir(f.Dir))(t)
	for _, e := range entries {
		names[e.Name()] = true
	}
	same(t, "files", len(names), 6) // three sessions and a conversation, a sub-agent, sessions/
	h := memorytest.Must(f.ReadHistory(t.Context(), "s1"))(t)
	same(t, "history", len(h), 3)
	same(t, "metadata", h[child].Metadata.TotalTokens, 5)
	// The file is memory by keys, and says what the store's memory says.
	of := func(p port.MemoryPersistence) string {
		all := memorytest.Must(port.NewConversationStore(p, port.ConversationOptions{}).ExportSnapshot(t.Context()))(t)
		return string(memorytest.Must(json.Marshal(all))(t))
	}
	path := filepath.Join(f.Dir, "sessions", "s1")
	same(t, "by keys", of(port.NewJSONFile(filepath.Join(path, "history.json"), port.JSONFileOptions{})),
		of(port.NewStore(a, port.StoreOptions{UserID: user, Profile: "default", Session: "s1"})))
	text := memorytest.Must(os.ReadFile(filepath.Join(path, "history.json")))(t)
	if strings.Contains(string(text), `"turnId"`) || strings.Contains(string(text), `"seq"`) {
		t.Errorf("history.json says where messages stand in their threads: %s", text)
	}
	log := port.NewPersistedMemory[agent.Event](port.NewJSONFile(filepath.Join(path, "events.json"), port.JSONFileOptions{}))
	same(t, "events", memorytest.Must(log.Keys(t.Context()))(t), []string{child, "default", "other"})

	b := store(t, clock)
	in := memorytest.Must(archive.Import(t.Context(), b, f, owner, ""))(t)
	same(t, "imported", [3]int{len(in.Added), len(in.Present), len(in.Refused)}, [3]int{5, 0, 0})
	same(t, "dropped", len(in.Dropped), 2)
	memorytest.Sound(t, b)
	overdue := memorytest.Must(b.Overdue(t.Context(), 0, 0))(t)
	same(t, "overdue", len(overdue), 0)
	in = memorytest.Must(archive.Import(t.Context(), b, f, owner, ""))(t)
	same(t, "again", [3]int{len(in.Added), len(in.Present), len(in.Refused)}, [3]int{0, 5, 0})

	one := store(t, clock)
	in = memorytest.Must(archive.Import(t.Context(), one, f, owner, "s1"))(t)
	same(t, "one", [2]int{len(in.Added), len(in.Refused)}, [2]int{3, 0})
	for _, id := range []string{waits, open} {
		memorytest.Must(a.RequestCancel(t.Context(), memory.CancelRequest{UserID: user, ThreadID: id, All: true}))(t)
		if th, err := a.Thread(t.Context(), user, id); err == nil && th.OpenTurnID != "" {
			memorytest.Must(a.CloseTurn(t.Context(), memory.CloseRequest{ThreadID: id, TurnID: th.OpenTurnID, Outcome: agent.ThreadCancelled}))(t)
		}
		memorytest.Must(a.DeleteTree(t.Context(), memory.DeleteRequest{ThreadID: id}))(t)
	}
	same(t, "store", everything(t, one), everything(t, a))
	children := memorytest.Must(one.Children(t.Context(), first))(t)
	same(t, "linked", [2]any{len(children), children[0].ID}, [2]any{1, child})
	loaded := memorytest.Must(archive.Load(t.Context(), one, owner, "s1"))(t)
	files, _, err := f.Trees()
	ok(t, err)
	same(t, "loaded", threads(loaded), "s1/other() s1/default("+child+"())")
	same(t, "as in the files", fmt.Sprint(loaded[1].Messages[0].Content, len(loaded[1].Children[0].Messages)), fmt.Sprint(files[len(files)-1].Messages[0].Content, len(files[len(files)-1].Children[0].Messages)))
	sub := memorytest.Must(archive.Load(t.Context(), one, owner, child))(t)
	same(t, "loaded", threads(sub), child+"()")
	_, err = archive.Import(t.Context(), one, f, owner, "s9")
	same(t, "missing", agent.CodeOf(err), agent.CodeNotFound)
}

// threads are the ids of trees.
func threads(list []sessionfile.Tree) (out string) {
	for _, t := range list {
		out += " " + t.ThreadID + "(" + threads(t.Children) + ")"
	}
	return strings.TrimPrefix(out, " ")
}

// TestOthersFindNothing: neither another user nor another profile.
func TestOthersFindNothing(t *testing.T) {
	clock := memorytest.NewClock()
	a, f := store(t, clock), folder(t)
	thread := send(t, a, user, "s1", "default", "hello")
	child := answer(t, a, thread, "general")
	before := everything(t, a)
	for _, o := range []archive.Owner{{UserID: "mallory"}, {UserID: user, Profile: "other"}} {
		for _, id := range []string{"s1", thread, child, child[len("agent:general:"):]} {
			_, err := archive.Export(t.Context(), a, f, o, id, sessionfile.EventOptions{})
			same(t, "export "+id, agent.CodeOf(err), agent.CodeNotFound)
			_, err = archive.Delete(t.Context(), a, o, id)
			same(t, "delete "+id, agent.CodeOf(err), agent.CodeNotFound)
		}
		clock.Advance(time.Hour)
		res := memorytest.Must(archive.Expire(t.Context(), a, o, archive.ExpireOptions{MaxAge: time.Minute, Now: clock.Now()}))(t)
		same(t, "expired", len(res.Threads), 0)
	}
	same(t, "unchanged", everything(t, a), before)
	if _, err := os.Stat(f.Dir); !os.IsNotExist(err) {
		t.Errorf("something was exported: %v", err)
	}
	memorytest.Must(archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{}))(t)
	in := memorytest.Must(archive.Import(t.Context(), store(t, clock), f, archive.Owner{UserID: "mallory"}, ""))(t)
	same(t, "another's export", [2]int{len(in.Added), len(in.Refused)}, [2]int{0, 1})
	if !strings.Contains(in.Refused[0].Error(), `belongs to user "alice"`) {
		t.Error(in.Refused[0])
	}
	for _, id := range []string{"../s1", "/etc/passwd", "s1\x00", "..", strings.Repeat("s", 300), "s\u0131", "a/b/c"} {
		memorytest.Fails(archive.Export(t.Context(), a, f, owner, id, sessionfile.EventOptions{}))(t, agent.CodeInvalid)
	}
}

// TestRow88_DeleteAndExpire: both kinds, children with their parent; never what
// runs, waits or was restored; 0 = never.
func TestRow88_DeleteAndExpire(t *testing.T) {
	clock := memorytest.NewClock()
	s, f := store(t, clock), folder(t)
	old := send(t, s, user, "s1", "default", "old")
	child := answer(t, s, old, "general")
	open := send(t, s, user, "s2", "default", "open")
	memorytest.Must(s.TakeNext(t.Context(), memory.TakeRequest{ThreadID: open, RunID: "run"}))(t)
	waits := send(t, s, user, "s3", "default", "waits")
	kept := send(t, s, user, "s4", "default", "kept")
	answer(t, s, kept, "")
	clock.Advance(48 * time.Hour)
	fresh := send(t, s, user, "s5", "default", "fresh")
	answer(t, s, fresh, "")
	memorytest.Must(archive.Export(t.Context(), s, f, owner, "s1", sessionfile.EventOptions{}))(t)

	expire := func(age time.Duration, keep ...string) []string {
		t.Helper()
		res := memorytest.Must(archive.Expire(t.Context(), s, owner, archive.ExpireOptions{MaxAge: age, Now: clock.Now(), Keep: keep}))(t)
		return res.Threads
	}
	same(t, "never", expire(0), []string{})
	same(t, "too young", expire(72*time.Hour), []string{})
	same(t, "expired", expire(24*time.Hour, "s4"), []string{old, child})
	in := memorytest.Must(archive.Import(t.Context(), s, f, owner, "s1"))(t)
	same(t, "restored", len(in.Added), 2)
	same(t, "being restored", expire(24*time.Hour, kept), []string{})
	clock.Advance(25 * time.Hour)
	same(t, "later", expire(24*time.Hour, kept), []string{fresh, old, child})

	_, err := archive.Delete(t.Context(), s, owner, "s2")
	same(t, "at work", agent.CodeOf(err), agent.CodeConflict)
	_, err = archive.Delete(t.Context(), s, owner, waits)
	same(t, "waiting", agent.CodeOf(err), agent.CodeConflict)
	res := memorytest.Must(archive.Delete(t.Context(), s, owner, "s4"))(t)
	same(t, "deleted", res, memory.DeleteResult{Threads: []string{kept}, Session: true})
	_, err = archive.Delete(t.Context(), s, owner, "s4")
	same(t, "gone", agent.CodeOf(err), agent.CodeNotFound)
	memorytest.Sound(t, s)
}

package port_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
)

// product is a store in which turns ran: the conversations s/default and s/cli, and
// a sub-agent of s/default.
type product struct {
	*stores
	store memory.ConversationMemoryStore
	child string
}

func newProduct(t *testing.T, spec string) *product {
	t.Helper()
	store := memorytest.Must(spool.OpenStore(t.Context(), spec))(t)
	t.Cleanup(func() {
		isSound(t, store)
		_ = store.Close()
	})
	p := &product{stores: storesOn(t, port.NewStore(store, options)), store: store}
	for _, conversation := range []string{"cli", "default"} {
		r := memorytest.Request("s", "m-"+conversation)
		r.Profile, r.ConversationID = "default", conversation
		p.send(r)
		p.ok(memorytest.RunTurns(t.Context(), store, "s/"+conversation))
	}
	r := memorytest.Request("s", "m2")
	r.Profile = "default"
	p.send(r)
	p.child = memorytest.Delegated(t, store, "s/default")
	return p
}

func (p *product) send(r memory.SendRequest) {
	p.Helper()
	memorytest.Must(p.store.Send(p.Context(), r))(p)
}

func texts(messages []agent.Message) (out []string) {
	for _, m := range messages {
		out = append(out, m.ID+" "+string(m.Role)+" "+m.Content.String())
	}
	return out
}

// remembers compares a conversation with the rows of its thread.
func (p *product) remembers(key, thread string) port.Conversation {
	p.Helper()
	rows := memorytest.Must(p.store.Messages(p.Context(), thread, 0, 0))(p)
	c := p.get(key)
	p.same(key, texts(c.Messages), texts(rows))
	if len(rows) == 0 {
		p.Fatalf("%s holds nothing", thread)
	}
	return c
}

// TestRow31_KeyNamespaces: what turns wrote is read by keys, conversations,
// sub-agents and metadata; lists show what they are lists of.
func TestRow31_KeyNamespaces(t *testing.T) {
	p := newProduct(t, "memory:")
	p.remembers("cli", "s/cli")
	p.remembers("default", "s/default")
	p.remembers(p.child, p.child)
	keys := memorytest.Must(p.raw.Keys(t.Context()))(p)
	p.same("keys", keys, []string{"__metadata__:" + p.child, "__metadata__:cli", "__metadata__:default", p.child, "cli", "default"})
	p.same("conversations", p.listed(), []string{"default", "cli"})
	for name, o := range map[string]port.StoreOptions{"s/cli": {UserID: "u"}, "": {UserID: "mallory"}, " ": {UserID: "u", Profile: "work"}, "  ": {UserID: "u", Session: "s2"}} {
		other := storesOn(t, port.NewStore(p.store, o))
		keys := memorytest.Must(other.raw.Keys(t.Context()))(p)
		p.same("whether others see it", []bool{slices.Contains(keys, name), len(keys) > 0}, []bool{o == port.StoreOptions{UserID: "u"}, o == port.StoreOptions{UserID: "u"}})
		got := memorytest.Must(other.raw.Get(t.Context(), p.child))(p)
		p.same("sub-agent", len(got) > 0, len(keys) > 0)
	}
}

// TestRow32_MetadataApartFromMessages: metadata is the thread's, and counts equal
// the rows.
func TestRow32_MetadataApartFromMessages(t *testing.T) {
	p := newProduct(t, "memory:")
	turns := memorytest.Must(p.store.TurnsOf(t.Context(), "s/default"))(p)
	used := turns[0].Usage.Add(turns[1].Usage)
	rows := memorytest.Must(p.raw.Get(t.Context(), "__metadata__:default"))(p)
	var fields map[string]any
	p.ok(json.Unmarshal(rows[0], &fields))
	for name, want := range map[string]any{
		"topic": "text of m-default", "messageCount": 9.0, "toolCallCount": 3.0, "totalPrice": 0.0, "totalTokens": float64(used.TotalTokens),
		"promptTokens": float64(used.PromptTokens), "completionTokens": float64(used.CompletionTokens), "requestCount": float64(used.Requests),
	} {
		if fields[name] != want {
			t.Errorf("%s is %v, want %v: %s", name, fields[name], want, rows[0])
		}
	}
	p.ok(p.c.UpdateTopic(t.Context(), "default", "Weather"))
	p.ok(p.c.IncrementTokens(t.Context(), "default", 5, 2))
	p.ok(p.c.RecordRequestMetrics(t.Context(), "default", port.RequestMetrics{PromptTokens: 100, CompletionTokens: 20, Price: 0.25}))
	th := memorytest.Must(p.store.Thread(t.Context(), "u", "s/default"))(p)
	m := p.get("default").Metadata
	p.same("metadata", m, port.ConversationMetadata{Metadata: th.Metadata, CreatedAt: th.CreatedAt, UpdatedAt: th.UpdatedAt})
	p.same("what was said", []any{m.Topic, m.TotalTokens, m.PromptTokens, m.CompletionTokens, m.RequestCount, m.TotalPrice, m.ContextWindow},
		[]any{"Weather", used.TotalTokens + 127, used.PromptTokens + 105, used.CompletionTokens + 22, used.Requests + 1, 0.25, agent.ContextWindow{Prompt: 100, Completion: 20, Total: 120}})
}

// TestRow33_ConversationStore: the operations of appendix A, on what turns wrote.
func TestRow33_ConversationStore(t *testing.T) {
	p := newProduct(t, "memory:")
	before := p.remembers("cli", "s/cli")
	p.ok(p.c.AppendMessages(t.Context(), "cli", msg("n1", agent.RoleUser, 1), msg("n2", agent.RoleAssistant, 2)))
	p.ok(p.c.AppendMessages(t.Context(), "cli", msg("n1", agent.RoleUser, 1)))
	c := p.remembers("cli", "s/cli")
	p.same("appended", texts(c.Messages[len(before.Messages):]), []string{"n1 user text of n1", "n2 assistant text of n2"})
	p.same("count", c.Metadata.MessageCount, before.Metadata.MessageCount+2)

	c.Messages = append(before.Messages[:1:1], msg("n1", agent.RoleAssistant, 3))
	p.ok(p.c.SetConversation(t.Context(), "cli", c))
	p.same("what was set", texts(p.get("cli").Messages), texts(c.Messages))
	events := memorytest.Must(p.store.Events(t.Context(), "s/cli", 0, 0))(p)
	p.same("logged", slices.ContainsFunc(events, func(e agent.Event) bool {
		return e.Type == agent.EventMemoryEdited && strings.Contains(string(e.Data), "replacedFrom")
	}), true)

	r := memorytest.Request("s", "m3")
	r.Profile, r.ConversationID = "default", "cli"
	p.send(r)
	memorytest.Must(p.store.TakeNext(t.Context(), memory.TakeRequest{ThreadID: "s/cli", RunID: "r"}))(p)
	for _, err := range []error{
		p.c.AppendMessages(t.Context(), "cli", msg("n4", agent.RoleUser, 1)), p.c.SetConversation(t.Context(), "cli", c), p.c.UpdateTopic(t.Context(), "cli", "x"),
		p.c.DeleteConversation(t.Context(), "cli"), p.raw.Clear(t.Context()),
	} {
		if agent.CodeOf(err) != agent.CodeConflict || !strings.Contains(err.Error(), "at work") || !strings.Contains(err.Error(), "s/cli") {
			t.Errorf("while a turn is open: %v", err)
		}
	}
	p.ok(memorytest.RunTurns(t.Context(), p.store, "s/cli"))
	p.same("a turn goes on from it", len(p.get("cli").Messages), len(c.Messages)+5)
	p.ok(p.c.DeleteConversation(t.Context(), "cli"))
	p.ok(p.c.DeleteConversation(t.Context(), "cli"))
	p.same("after a delete", p.listed(), []string{"default"})
	memorytest.Fails(p.store.Thread(t.Context(), "u", "s/cli"))(t, agent.CodeNotFound)
}

// TestRow20_AgentSessionStore: sub-agents that turns made are found by type, read,
// saved and deleted.
func TestRow20_AgentSessionStore(t *testing.T) {
	p := newProduct(t, "memory:")
	parsed := memorytest.Must(agent.ParseThreadID(p.child))(p)
	for typ, want := range map[string]int{"": 1, "researcher": 1, "general": 0} {
		list := memorytest.Must(p.agents.List(t.Context(), typ))(p)
		p.same("of type "+typ, len(list), want)
	}
	got, found, err := p.agents.Get(t.Context(), "researcher", parsed.AgentID)
	p.ok(err)
	p.same("found", []any{found, texts(got.Messages)}, []any{true, texts(p.remembers(p.child, p.child).Messages)})
	got.Messages = append(got.Messages, msg("n1", agent.RoleUser, 1))
	p.ok(p.agents.Save(t.Context(), got))
	p.same("saved", len(p.remembers(p.child, p.child).Messages), len(got.Messages))
	p.ok(p.agents.Delete(t.Context(), "researcher", parsed.AgentID))
	_, found, err = p.agents.Get(t.Context(), "researcher", parsed.AgentID)
	p.ok(err)
	list := memorytest.Must(p.agents.List(t.Context(), ""))(p)
	p.same("after a delete", []any{found, len(list)}, []any{false, 0})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(p.agents.Save(t.Context(), port.AgentSession{AgentType: "general", AgentID: "x", Conversation: got.Conversation})))
}

// TestRow30_LocationsAreInterchangeable: an export of what turns wrote goes into
// any other place, by configuration, and out again.
func TestRow30_LocationsAreInterchangeable(t *testing.T) {
	p := newProduct(t, "sqlite:"+filepath.Join(t.TempDir(), "from.db"))
	exported := memorytest.Must(p.c.ExportSnapshot(t.Context()))(p)
	data := memorytest.Must(json.Marshal(exported))(p)
	if !strings.Contains(string(data), `"__metadata__:cli":[{"topic":"text of m-cli",`) || !strings.Contains(string(data), `"cli":[{"id":"`) {
		t.Errorf("snapshot: %.300s", data)
	}
	for _, place := range places {
		var read port.MemorySnapshot[json.RawMessage]
		p.ok(json.Unmarshal(data, &read))
		if place.name != "json:" { // only an agent makes a sub-agent there
			delete(read, p.child)
			delete(read, "__metadata__:"+p.child)
		}
		to := storesOn(t, mustOpen(t, place.at(t.TempDir())))
		p.ok(to.c.ImportSnapshot(t.Context(), read))
		p.same(place.name, len(to.listed()), 2)
		for _, key := range []string{"default", "cli"} {
			got, want := to.get(key), p.get(key)
			p.same(place.name+key, texts(got.Messages), texts(want.Messages))
			got.Metadata.CreatedAt, got.Metadata.UpdatedAt, got.Metadata.TotalTimeMs = want.Metadata.CreatedAt, want.Metadata.UpdatedAt, want.Metadata.TotalTimeMs
			p.same(place.name+" metadata of "+key, got.Metadata, want.Metadata)
		}
		p.ok(to.c.ImportSnapshot(t.Context(), read)) // again
	}
	for _, wrong := range []string{"", "memory", "json:", "sqlite:", "mysql://x"} {
		memorytest.Fails(open(wrong))(t, agent.CodeInvalid)
	}
}

// TestRow29_SnapshotIsTheFile: a snapshot's JSON is that of a JSON file, {key: [item, …]}.
func TestRow29_SnapshotIsTheFile(t *testing.T) {
	p := newProduct(t, "memory:")
	snapshot := memorytest.Must(p.raw.ExportSnapshot(t.Context()))(p)
	path := filepath.Join(t.TempDir(), "m.json")
	file := storesOn(t, mustOpen(t, "json:"+path))
	p.ok(file.raw.ImportSnapshot(t.Context(), snapshot))
	data := memorytest.Must(os.ReadFile(path))(p)
	var got, want any
	p.ok(json.Unmarshal(data, &got))
	data = memorytest.Must(json.Marshal(snapshot))(p)
	p.ok(json.Unmarshal(data, &want))
	p.same("file", got, want)
	again := memorytest.Must(file.raw.ExportSnapshot(t.Context()))(p)
	p.same("snapshot", again, snapshot)
}

// TestRow27_LazyLoadEagerSave: nothing is read, made or opened before the first
// access, and what was appended is there for others when the call returns.
func TestRow27_LazyLoadEagerSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deeper")
	untouched := port.NewStore(nil, options) // any use of it would panic
	p := mustOpen(t, "json:"+filepath.Join(dir, "m.json"))
	require.NoError(t, errors.Join(untouched.Close(), p.Close()))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opening made a folder: %v", err)
	}
	product := newProduct(t, "sqlite:"+filepath.Join(t.TempDir(), "s.db"))
	product.ok(product.c.AppendMessages(t.Context(), "cli", msg("n", agent.RoleUser, 1)))
	product.remembers("cli", "s/cli")
}

// TestRow26_InMemoryWritesNoFile and row 34: without persistence nothing is opened
// and nothing is on the disk.
func TestRow26_InMemoryWritesNoFile(t *testing.T) { testCreateMemory(t, false) }

func TestRow34_CreateMemory(t *testing.T) { testCreateMemory(t, true) }

func testCreateMemory(t *testing.T, persist bool) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	product := newProduct(t, "memory:")
	snapshot := memorytest.Must(product.c.ExportSnapshot(t.Context()))(product)
	opened := 0
	create := func() *stores {
		p := memorytest.Must(port.CreateMemory(persist, func() (port.MemoryPersistence, error) {
			opened++
			return open("json:" + filepath.Join(dir, "home", "m.json"))
		}))(product)
		return storesOn(t, p)
	}
	first := create()
	product.ok(first.c.ImportSnapshot(t.Context(), snapshot))
	product.same("cli", texts(first.get("cli").Messages), texts(product.get("cli").Messages))
	product.ok(first.p.Close())
	again := create().listed()
	files := memorytest.Must(os.ReadDir(dir))(product)
	want := []any{false, 0, []string{}}
	if persist {
		want = []any{true, 2, []string{"default", "cli"}}
	}
	if got := []any{len(files) > 0, opened, again}; !reflect.DeepEqual(got, want) {
		t.Errorf("files, opened, found again: %v, want %v", got, want)
	}
}

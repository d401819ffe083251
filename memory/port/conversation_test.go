package port_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stores are a conversation store and an agent session store on one port.
type stores struct {
	*testing.T
	p      port.MemoryPersistence
	raw    *port.PersistedMemory[json.RawMessage]
	c      *port.ConversationStore
	agents *port.AgentSessionStore
	now    time.Time
}

func newStores(t *testing.T) *stores {
	t.Helper()
	return storesOn(t, port.NewInMemory())
}

func storesOn(t *testing.T, p port.MemoryPersistence) *stores {
	t.Helper()
	s := &stores{T: t, p: p, raw: port.NewPersistedMemory[json.RawMessage](p), now: noon}
	o := port.ConversationOptions{Now: func() time.Time { return s.now }}
	s.c, s.agents = port.NewConversationStore(p, o), port.NewAgentSessionStore(p, o)
	return s
}

func (s *stores) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stores) get(key string) port.Conversation {
	s.Helper()
	c := memorytest.Must(s.c.GetConversation(s.Context(), key))(s)
	return c
}

func (s *stores) same(what string, got, want any) {
	s.Helper()
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

func msg(id string, role agent.Role, minute int) agent.Message {
	return agent.Message{ID: id, Role: role, Content: agent.Text("text of " + id), Timestamp: noon.Add(time.Duration(minute-100) * time.Minute)}
}

func (s *stores) listed() []string {
	s.Helper()
	list := memorytest.Must(s.c.ListConversations(s.Context()))(s)
	keys := []string{}
	for _, i := range list {
		keys = append(keys, i.Key)
	}
	return keys
}

// TestMetadataApartFromMessages: every field, and counts that equal the rows.
func TestMetadataApartFromMessages(t *testing.T) {
	s := newStores(t)
	assistant := msg("b", agent.RoleAssistant, 2)
	assistant.ToolCalls = []agent.Call{agent.NewCall("c1", "lookup", "{}"), agent.NewCall("c2", "lookup", "{}")}
	s.ok(s.c.AppendMessages(t.Context(), "cli", msg("a", agent.RoleUser, 1), assistant))
	s.ok(s.c.RecordRequestMetrics(t.Context(), "cli", port.RequestMetrics{PromptTokens: 100, CompletionTokens: 20, ToolCalls: 2, Time: 1500 * time.Millisecond, Price: 0.25}))
	s.ok(s.c.RecordRequestMetrics(t.Context(), "cli", port.RequestMetrics{PromptTokens: 150, CompletionTokens: 10, TotalTokens: 165, Time: 500 * time.Millisecond, Price: 0.5}))
	s.ok(s.c.UpdateTopic(t.Context(), "cli", "Weather"))
	s.ok(s.c.UpdateMetadata(t.Context(), "cli", func(m *port.ConversationMetadata) { m.SummarizedFrom, m.MessageCount = "older", 77 }))
	want := port.ConversationMetadata{
		Metadata: agent.Metadata{
			Topic: "Weather", MessageCount: 2, TotalTokens: 285, PromptTokens: 250, CompletionTokens: 30, RequestCount: 2, ToolCallCount: 2, TotalTimeMs: 2000, TotalPrice: 0.75,
			ContextWindow: agent.ContextWindow{Prompt: 150, Completion: 10, Total: 165}, SummarizedFrom: "older",
		},
		CreatedAt: msg("a", "", 1).Timestamp, UpdatedAt: noon,
	}
	s.same("metadata", s.get("cli").Metadata, want)
	s.ok(s.c.AppendMessages(t.Context(), "cli", msg("c", agent.RoleUser, 3)))
	rows := memorytest.Must(s.raw.Get(t.Context(), "__metadata__:cli"))(s)
	var stored port.ConversationMetadata
	s.ok(json.Unmarshal(rows[0], &stored))
	want.MessageCount = 3
	s.same("as stored, after an append", stored, want)
}

// TestRow32_MetadataInTheSameWrite: an append whose metadata cannot be written
// appends nothing, on no account one without the other.
func TestRow32_MetadataInTheSameWrite(t *testing.T) {
	s := newStores(t)
	s.ok(s.c.AppendMessages(t.Context(), "cli", msg("a", agent.RoleUser, 1)))
	s.ok(s.raw.Set(t.Context(), "__metadata__:cli", []json.RawMessage{json.RawMessage(`"broken"`)}))
	before := memorytest.Must(s.raw.ExportSnapshot(t.Context()))(s)
	if err := s.c.AppendMessages(t.Context(), "cli", msg("b", agent.RoleUser, 2)); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Errorf("broken metadata: %v", err)
	}
	after := memorytest.Must(s.raw.ExportSnapshot(t.Context()))(s)
	s.same("everything", after, before)
}

// TestConversationStore: the operations of appendix A.
func TestConversationStore(t *testing.T) {
	s := newStores(t)
	none := s.get("cli")
	s.same("a missing conversation", none, port.Conversation{Messages: []agent.Message{}})
	s.same("no keys", s.listed(), []string{})

	s.ok(s.c.AppendMessages(t.Context(), "cli", msg("a", agent.RoleUser, 1)))
	before := memorytest.Must(s.raw.ExportSnapshot(t.Context()))(s)
	s.now = noon.Add(time.Hour)
	s.ok(s.c.AppendMessages(t.Context(), "cli", msg("a", agent.RoleUser, 1)))
	s.ok(s.c.AppendMessages(t.Context(), "cli"))
	after := memorytest.Must(s.raw.ExportSnapshot(t.Context()))(s)
	s.same("a repeated append changes", after, before)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(s.c.AppendMessages(t.Context(), "cli", msg("a", agent.RoleAssistant, 1))))

	s.ok(s.c.AppendMessages(t.Context(), "cli", msg("b", agent.RoleAssistant, 2), msg("c", agent.RoleUser, 3)))
	s.ok(s.c.IncrementTokens(t.Context(), "cli", 5, 2))
	s.ok(s.c.IncrementTokens(t.Context(), "cli", 1, 0))
	got := s.get("cli")
	s.same("messages", got.Messages, []agent.Message{msg("a", agent.RoleUser, 1), msg("b", agent.RoleAssistant, 2), msg("c", agent.RoleUser, 3)})
	s.same("tokens", []int64{got.Metadata.MessageCount, got.Metadata.TotalTokens, got.Metadata.PromptTokens, got.Metadata.CompletionTokens, got.Metadata.RequestCount}, []int64{3, 8, 6, 2, 0})
	s.same("updated", got.Metadata.UpdatedAt, s.now)

	got.Messages, got.Metadata.MessageCount = got.Messages[:1], 40
	s.ok(s.c.SetConversation(t.Context(), "cli", got))
	got.Metadata.MessageCount = 1
	s.same("what was set", s.get("cli"), got)

	s.now = noon.Add(-time.Hour)
	s.ok(s.c.AppendMessages(t.Context(), "older", msg("x", agent.RoleUser, 1)))
	s.ok(s.c.UpdateTopic(t.Context(), "empty", "no message yet"))
	s.same("newest activity first", s.listed(), []string{"cli", "empty", "older"})
	s.ok(s.c.DeleteConversation(t.Context(), "cli"))
	s.ok(s.c.DeleteConversation(t.Context(), "cli"))
	s.same("after a delete", s.listed(), []string{"empty", "older"})
	s.same("what was deleted", s.get("cli"), none)
	keys := memorytest.Must(s.raw.Keys(t.Context()))(s)
	s.same("keys", keys, []string{"__metadata__:empty", "__metadata__:older", "older"})
}

// TestRow33_ImportOfOtherPrograms: times come from the messages where none are
// stored, older metadata keys and numbers of milliseconds are understood.
func TestRow33_ImportOfOtherPrograms(t *testing.T) {
	s := newStores(t)
	var snapshot port.MemorySnapshot[json.RawMessage]
	s.ok(json.Unmarshal([]byte(`{
		"cli": [
			{"id":"a","role":"user","content":"hi","timestamp":1700000000000},
			{"id":"b","role":"assistant","content":null,"timestamp":"2023-11-14T22:13:25Z","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"timestamp\":1}"}}]}
		],
		"__metadata__cli": [{"topic":"Old","messageCount":99,"totalTokens":7}],
		"two": [{"role":"user","content":"no id"},{"role":"user","content":"no id"}],
		"__metadata__two": [{"topic":"older form"}],
		"__metadata__:two": [{"topic":"newer form","createdAt":1700000000000}],
		"agent:general:1": [{"id":"x","role":"user","content":"task","timestamp":1700000000000}]
	}`), &snapshot))
	s.ok(s.c.ImportSnapshot(t.Context(), snapshot))
	keys := memorytest.Must(s.raw.Keys(t.Context()))(s)
	s.same("keys", keys, []string{"__metadata__:agent:general:1", "__metadata__:cli", "__metadata__:two", "agent:general:1", "cli", "two"})
	c := s.get("cli")
	s.same("cli", c.Metadata, port.ConversationMetadata{
		Metadata:  agent.Metadata{Topic: "Old", MessageCount: 2, TotalTokens: 7},
		CreatedAt: time.UnixMilli(1700000000000).UTC(), UpdatedAt: time.UnixMilli(1700000005000).UTC(),
	})
	s.same("arguments are not touched", c.Messages[1].ToolCalls[0].Function.Arguments, `{"timestamp":1}`)
	two := s.get("two")
	s.same("two", []any{two.Metadata.Topic, two.Metadata.MessageCount, two.Metadata.CreatedAt.UnixMilli()}, []any{"newer form", int64(2), int64(1700000000000)})

	exported := memorytest.Must(s.c.ExportSnapshot(t.Context()))(s)
	target := newStores(t)
	s.ok(target.c.ImportSnapshot(t.Context(), exported))
	again := memorytest.Must(target.c.ExportSnapshot(t.Context()))(s)
	s.same("an export imported into an empty store", again, exported)

	if err := s.c.ImportSnapshot(t.Context(), port.MemorySnapshot[json.RawMessage]{"cli": {}, "bad": {json.RawMessage(`7`)}}); err == nil {
		t.Error("an item that is no message was taken")
	}
	unchanged := memorytest.Must(s.c.ExportSnapshot(t.Context()))(s)
	s.same("after a refused import", unchanged, exported)
}

// TestAgentSessionStore: what needs no thread: a session may be saved before it has
// a message, and lists tell types apart.
func TestAgentSessionStore(t *testing.T) {
	s := newStores(t)
	for i, k := range [][2]string{{"general", "1"}, {"general", "2"}, {"general-x", "1"}} {
		s.now = noon.Add(time.Duration(i) * time.Minute)
		s.ok(s.agents.Save(t.Context(), port.AgentSession{AgentType: k[0], AgentID: k[1], Conversation: port.Conversation{Metadata: port.ConversationMetadata{Metadata: agent.Metadata{Topic: k[1]}}}}))
	}
	s.ok(s.c.AppendMessages(t.Context(), "cli", msg("m", agent.RoleUser, 1)))
	s.same("conversations", s.listed(), []string{"cli"})
	names := func(typ string) (out []string) {
		list := memorytest.Must(s.agents.List(t.Context(), typ))(s)
		for _, i := range list {
			out = append(out, i.AgentType+"/"+i.AgentID)
		}
		return out
	}
	s.same("all", names(""), []string{"general-x/1", "general/2", "general/1"})
	s.same("of a type", names("general"), []string{"general/2", "general/1"})
	s.ok(s.agents.Delete(t.Context(), "general", "1"))
	s.ok(s.agents.Delete(t.Context(), "general", "1"))
	s.same("after a delete", names("general"), []string{"general/2"})
	if got, found, err := s.agents.Get(t.Context(), "general", "2"); err != nil || !found || got.Metadata.Topic != "2" {
		t.Errorf("%+v, %t, %v", got, found, err)
	}
	for _, k := range [][2]string{{"", "1"}, {"general", ""}, {"General", "1"}, {"general", "a:b"}, {"general", "../x"}, {"general:1", "x"}, {"general", "a\x00"}} {
		_, _, err := s.agents.Get(t.Context(), k[0], k[1])
		for _, err := range []error{err, s.agents.Save(t.Context(), port.AgentSession{AgentType: k[0], AgentID: k[1]})} {
			if agent.CodeOf(err) != agent.CodeInvalid {
				t.Errorf("%q: %v", k, err)
			}
		}
	}
	for _, key := range []string{"__metadata__:cli", "__metadata__cli", "", strings.Repeat("k", port.MaxKeyLength)} {
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(s.c.AppendMessages(t.Context(), key, msg("a", agent.RoleUser, 1))))
	}
}

// A port in memory keeps items as any other does, for as long as it is held.
func TestRow26_InMemoryMemory(t *testing.T) {
	m := port.NewInMemoryMemory[item]()
	one := item{ID: "a"}
	require.NoError(t, m.Append(t.Context(), "k", one, one))
	have := memorytest.Must(m.Get(t.Context(), "k"))(t)
	require.Equal(t, []item{one}, have)
	require.NoError(t, m.Close())
	have = memorytest.Must(port.NewInMemoryMemory[item]().Get(t.Context(), "k"))(t)
	require.Empty(t, have, "another one holds nothing of it")
}

package sessionfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// exampleHistory is what history.json looks like, a tool message and metadata
// included: the snapshot that the seed's memory exports.
const exampleHistory = `{
  "__metadata__:agent:general:general-1772366400000-0a1b2c3d4e5f": [
    {
      "messageCount": 1,
      "totalTokens": 0,
      "promptTokens": 0,
      "completionTokens": 0,
      "contextWindow": {
        "prompt": 0,
        "completion": 0,
        "total": 0
      },
      "requestCount": 0,
      "toolCallCount": 0,
      "totalTimeMs": 0,
      "totalPrice": 0,
      "createdAt": "2026-03-01T12:00:01Z",
      "updatedAt": "2026-03-01T12:00:01Z"
    }
  ],
  "__metadata__:cli": [
    {
      "topic": "Weather",
      "messageCount": 3,
      "totalTokens": 120,
      "promptTokens": 100,
      "completionTokens": 20,
      "contextWindow": {
        "prompt": 100,
        "completion": 20,
        "total": 120
      },
      "requestCount": 1,
      "toolCallCount": 1,
      "totalTimeMs": 1500,
      "totalPrice": 0.25,
      "createdAt": "2026-03-01T12:00:00Z",
      "updatedAt": "2026-03-01T12:00:03Z"
    }
  ],
  "agent:general:general-1772366400000-0a1b2c3d4e5f": [
    {
      "id": "t2.0",
      "role": "user",
      "content": "Look it up.",
      "timestamp": "2026-03-01T12:00:01Z"
    }
  ],
  "cli": [
    {
      "id": "t1.0",
      "role": "user",
      "content": "How is the weather in Köln?",
      "timestamp": "2026-03-01T12:00:00Z"
    },
    {
      "id": "t1.1",
      "role": "assistant",
      "content": null,
      "timestamp": "2026-03-01T12:00:02Z",
      "tool_calls": [
        {
          "id": "call_1_1_0",
          "type": "function",
          "function": {
            "name": "lookup",
            "arguments": "{\"city\":\"Köln\"}"
          }
        }
      ]
    },
    {
      "id": "call_1_1_0r",
      "role": "tool",
      "content": "sunny",
      "timestamp": "2026-03-01T12:00:03Z",
      "tool_call_id": "call_1_1_0",
      "name": "lookup",
      "status": "success"
    }
  ]
}
`

func historyPath(f sessionfile.Folder) string {
	return filepath.Join(f.Dir, "sessions", sessionID, "history.json")
}

// parse reads a text as a session's history.
func parse(t *testing.T, text string) (map[string]port.Conversation, error) {
	t.Helper()
	f := folder(t)
	write(t, historyPath(f), text)
	return f.ReadHistory(t.Context(), sessionID)
}

// TestRow38_HistoryExport: a memory's snapshot becomes exactly the example, whether it
// comes from a conversation store or from the file itself, and the file is a memory.
func TestRow38_HistoryExport(t *testing.T) {
	want := memorytest.Must(parse(t, exampleHistory))(t)
	main := want["cli"]
	same(t, "messages", len(main.Messages), 3)
	same(t, "tool message", []any{main.Messages[2].Role, main.Messages[2].ToolCallID, main.Messages[1].ToolCalls[0].Function.Arguments}, []any{agent.RoleTool, "call_1_1_0", `{"city":"Köln"}`})
	same(t, "null content", main.Messages[1].Content.Null, true)

	f := folder(t)
	store := port.NewConversationStore(port.NewInMemory(), port.ConversationOptions{})
	var example port.MemorySnapshot[json.RawMessage]
	ok(t, json.Unmarshal([]byte(exampleHistory), &example))
	ok(t, store.ImportSnapshot(t.Context(), example))
	snapshot := memorytest.Must(store.ExportSnapshot(t.Context()))(t)
	path := memorytest.Must(f.WriteHistory(t.Context(), sessionID, snapshot))(t)
	same(t, "path", path, historyPath(f))
	text := memorytest.Must(os.ReadFile(path))(t)
	same(t, "history.json", string(text), exampleHistory)
	got := memorytest.Must(f.ReadHistory(t.Context(), sessionID))(t)
	same(t, "history", got, want)
	file := port.NewConversationStore(port.NewJSONFile(path, port.JSONFileOptions{}), port.ConversationOptions{})
	cli := memorytest.Must(file.GetConversation(t.Context(), "cli"))(t)
	same(t, "the file as a memory", cli, main)
	none := memorytest.Must(f.ReadHistory(t.Context(), "none"))(t)
	same(t, "a session without history", len(none), 0)

	// What is not written again stays.
	memorytest.Must(f.WriteHistory(t.Context(), sessionID, port.MemorySnapshot[json.RawMessage]{"new": {[]byte(`{"id":"n","role":"user","content":"hi"}`)}}))(t)
	got = memorytest.Must(f.ReadHistory(t.Context(), sessionID))(t)
	same(t, "an earlier export", []any{len(got), got["cli"]}, []any{3, main})
}

// TestRow38_HistoryImport: the snapshot form of a raw-key memory, older times and keys.
func TestRow38_HistoryImport(t *testing.T) {
	got := memorytest.Must(parse(t, `{
		"0": [{"id":"x","role":"user","content":"zero"}], "__metadata__0": [{"topic":"older"}], "__metadata__:0": [{"topic":"newer"}],
		"cli": [{"id":"a","role":"user","content":"hi","timestamp":1772366400000}, {"id":"r","role":"tool","content":"sunny","tool_call_id":"c"}],
		"__metadata__cli": [{"topic":"T","messageCount":9,"createdAt":1772366400000}]
	}`))(t)
	cli := got["cli"]
	same(t, "keys", len(got), 2)
	same(t, "cli", []any{cli.Metadata.Topic, cli.Metadata.MessageCount, cli.Metadata.CreatedAt.Equal(noon), cli.Messages[0].Timestamp.Equal(noon), cli.Messages[1].ToolCallID}, []any{"T", int64(2), true, true, "c"})
	same(t, "newer metadata wins", got["0"].Metadata.Topic, "newer")
	for _, bad := range []string{"", "[]", "null", `"x"`, `{"a":1}`, `{"a":{"messages":[]}}`, `{"a\u0000":[]}`, `{"a":[1]}`, `{"a":[{"role":"robot"}]}`, exampleHistory[:200]} {
		if h, err := parse(t, bad); err == nil {
			t.Errorf("%.40q was taken as %v", bad, h)
		}
	}
}

// TestRow38_BrokenHistory: nothing is written over a file that cannot be understood,
// and reading leaves it where it is.
func TestRow38_BrokenHistory(t *testing.T) {
	f := folder(t)
	path := historyPath(f)
	write(t, path, `{"default":`)
	var d *port.DamagedError
	if _, err := f.ReadHistory(t.Context(), sessionID); !errors.As(err, &d) {
		t.Errorf("a broken file: %v", err)
	}
	text := memorytest.Must(os.ReadFile(path))(t)
	same(t, "after reading", string(text), `{"default":`)
	history := port.MemorySnapshot[json.RawMessage]{"default": {[]byte(`{"id":"n","role":"user","content":"hi"}`)}}
	if _, err := f.WriteHistory(t.Context(), sessionID, history); !errors.As(err, &d) || d.SetAside == "" {
		t.Fatalf("a write over a broken file: %v", err)
	}
	if text, err := os.ReadFile(d.SetAside); err != nil || string(text) != `{"default":` {
		t.Errorf("%s, %v", text, err)
	}
	memorytest.Must(f.WriteHistory(t.Context(), sessionID, history))(t) // the second write
}

func event(seq int64, typ string) agent.Event {
	return agent.Event{ThreadID: sessionID + "/default", Seq: seq, Type: typ, TurnID: "t1", Data: json.RawMessage(`{"n":1}`), At: noon.Add(time.Duration(seq) * time.Second)}
}

// TestRow39_Events: off is absent; on is all of them in order, tool_response as
// tool_result; a cap does not touch the log.
func TestRow39_Events(t *testing.T) {
	f := folder(t)
	sub := "agent:general:" + agentID
	log := sessionfile.Events{
		"default": {event(1, agent.EventMessageStarted), event(2, agent.EventToolCall), event(3, agent.EventToolResponse), event(4, agent.EventDone)},
		sub:       {event(1, agent.EventMessageStarted), event(2, agent.EventDone)},
	}
	before := memorytest.Must(json.Marshal(log))(t)
	if path, err := f.WriteEvents(t.Context(), sessionID, log, sessionfile.EventOptions{}); path != "" || err != nil {
		t.Errorf("off: %q, %v", path, err)
	}
	same(t, "nothing was made", names(t, f.Dir), []string{})
	read := func(o sessionfile.EventOptions) map[string][]agent.Event {
		path := memorytest.Must(f.WriteEvents(t.Context(), sessionID, log, o))(t)
		text := memorytest.Must(os.ReadFile(path))(t)
		var events map[string][]agent.Event
		ok(t, json.Unmarshal(text, &events))
		return events
	}
	got := read(sessionfile.EventOptions{Enabled: true})
	same(t, "keys", len(got), 2)
	var types []string
	for i, e := range got["default"] {
		want := log["default"][i]
		types = append(types, e.Type)
		same(t, "event", []any{e.Seq, e.TurnID, e.ThreadID, e.At}, []any{want.Seq, want.TurnID, want.ThreadID, want.At})
	}
	same(t, "types", types, []string{"message_started", "tool_call", "tool_result", "done"})
	same(t, "order of the sub-agent's", []int64{got[sub][0].Seq, got[sub][1].Seq}, []int64{1, 2})

	got = read(sessionfile.EventOptions{Enabled: true, Cap: 2})
	same(t, "capped", []int64{int64(len(got["default"])), got["default"][0].Seq, got["default"][1].Seq}, []int64{2, 3, 4})
	after := memorytest.Must(json.Marshal(log))(t)
	same(t, "the log itself", string(after), string(before))
}

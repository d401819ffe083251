package sessionfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
      "totalPrice": 0
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
      "timestamp": "2026-03-01T12:00:01Z",
      "turnId": "t2",
      "seq": 1
    }
  ],
  "cli": [
    {
      "id": "t1.0",
      "role": "user",
      "content": "How is the weather in Köln?",
      "timestamp": "2026-03-01T12:00:00Z",
      "turnId": "t1",
      "seq": 1
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
      ],
      "turnId": "t1",
      "seq": 2
    },
    {
      "id": "call_1_1_0r",
      "role": "tool",
      "content": "sunny",
      "timestamp": "2026-03-01T12:00:03Z",
      "tool_call_id": "call_1_1_0",
      "name": "lookup",
      "turnId": "t1",
      "seq": 3,
      "status": "success"
    }
  ]
}
`

// TestRow38_HistoryExport: a conversation store's content becomes exactly the
// example, and the example becomes that content.
func TestRow38_HistoryExport(t *testing.T) {
	f := folder(t)
	want := memorytest.Must(sessionfile.ParseHistory([]byte(exampleHistory)))(t)
	main := want["cli"]
	same(t, "messages", len(main.Messages), 3)
	same(t, "tool message", []any{main.Messages[2].Role, main.Messages[2].ToolCallID, main.Messages[1].ToolCalls[0].Function.Arguments}, []any{agent.RoleTool, "call_1_1_0", `{"city":"Köln"}`})
	same(t, "null content", main.Messages[1].Content.Null, true)

	// Through a store and out again, by whole thread ids.
	store := port.NewConversationStore(port.NewInMemory(), port.ConversationOptions{})
	out := sessionfile.History{}
	for key, c := range want {
		thread := sessionfile.AbsoluteKey(sessionID, key)
		if key == "cli" {
			ok(t, store.SetConversation(t.Context(), thread, c))
			memorytest.Must(store.GetConversation(t.Context(), thread))(t)
		}
		out[thread] = c
	}
	path := memorytest.Must(f.WriteHistory(sessionID, out))(t)
	same(t, "path", path, filepath.Join(f.Dir, "sessions", sessionID, "history.json"))
	text := memorytest.Must(os.ReadFile(path))(t)
	same(t, "history.json", string(text), exampleHistory)
	got, found, err := f.ReadHistory(sessionID)
	ok(t, err)
	same(t, "found", found, true)
	same(t, "history", got, want)
	if _, found, err := f.ReadHistory("none"); found || err != nil {
		t.Errorf("a session without history: %t, %v", found, err)
	}
}

// TestRow38_HistoryImport: the snapshot form of a raw-key memory, older times and keys.
func TestRow38_HistoryImport(t *testing.T) {
	got := memorytest.Must(sessionfile.ParseHistory([]byte(`{
		"0": [{"id":"x","role":"user","content":"zero"}], "__metadata__0": [{"topic":"older"}], "__metadata__:0": [{"topic":"newer"}],
		"cli": [{"id":"a","role":"user","content":"hi","timestamp":1772366400000}, {"id":"r","role":"tool","content":"sunny","tool_call_id":"c"}],
		"__metadata__cli": [{"topic":"T","messageCount":9,"createdAt":1772366400000}]
	}`)))(t)
	cli := got["cli"]
	same(t, "keys", len(got), 2)
	same(t, "cli", []any{cli.Metadata.Topic, cli.Metadata.MessageCount, cli.Metadata.CreatedAt.Equal(noon), cli.Messages[0].Timestamp.Equal(noon), cli.Messages[1].ToolCallID}, []any{"T", int64(2), true, true, "c"})
	same(t, "newer metadata wins", got["0"].Metadata.Topic, "newer")
	for _, bad := range []string{"", "[]", "null", `"x"`, `{"a":1}`, `{"a":{"messages":[]}}`, `{"a\u0000":[]}`, `{"a":[1]}`, exampleHistory[:200]} {
		if h, err := sessionfile.ParseHistory([]byte(bad)); err == nil {
			t.Errorf("%.40q was taken as %v", bad, h)
		}
	}
}

// TestRow38_ForeignAndBrokenHistory: nothing of another session, nothing over a
// file that cannot be understood.
func TestRow38_ForeignAndBrokenHistory(t *testing.T) {
	f := folder(t)
	for _, key := range []string{"other/default", sessionID + "/a/b", sessionID + "/", ""} {
		memorytest.Fails(f.WriteHistory(sessionID, sessionfile.History{key: {}}))(t, agent.CodeInvalid)
	}
	memorytest.Fails(f.WriteHistory(sessionID, sessionfile.History{sessionID + "/x": {}, "x": {}}))(t, agent.CodeInvalid)
	same(t, "nothing was made", names(t, f.Dir), []string{})
	path := filepath.Join(f.Dir, "sessions", sessionID, "history.json")
	write(t, path, `{"default":`)
	var d *port.DamagedError
	if _, _, err := f.ReadHistory(sessionID); !errors.As(err, &d) {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := f.WriteHistory(sessionID, sessionfile.History{"default": {}}); !errors.As(err, &d) || d.SetAside == "" {
		t.Fatalf("a write over a broken file: %v", err)
	}
	if text, err := os.ReadFile(d.SetAside); err != nil || string(text) != `{"default":` {
		t.Errorf("%s, %v", text, err)
	}
	memorytest.Must(f.WriteHistory(sessionID, sessionfile.History{"default": {}}))(t) // the second write
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
		sessionID + "/default": {event(1, agent.EventMessageStarted), event(2, agent.EventToolCall), event(3, agent.EventToolResponse), event(4, agent.EventDone)},
		sub:                    {event(2, agent.EventDone), event(1, agent.EventMessageStarted)},
	}
	before := memorytest.Must(json.Marshal(log))(t)
	if path, err := f.WriteEvents(sessionID, log, sessionfile.EventOptions{}); path != "" || err != nil {
		t.Errorf("off: %q, %v", path, err)
	}
	same(t, "nothing was made", names(t, f.Dir), []string{})
	if _, found, err := f.ReadEvents(sessionID); found || err != nil {
		t.Errorf("off: %t, %v", found, err)
	}
	path := memorytest.Must(f.WriteEvents(sessionID, log, sessionfile.EventOptions{Enabled: true}))(t)
	text := memorytest.Must(os.ReadFile(path))(t)
	var raw map[string][]map[string]any
	ok(t, json.Unmarshal(text, &raw))
	var types []any
	for _, e := range raw["default"] {
		types = append(types, e["type"])
	}
	same(t, "types", types, []any{"message_started", "tool_call", "tool_result", "done"})
	got, found, err := f.ReadEvents(sessionID)
	ok(t, err)
	same(t, "found", found, true)
	same(t, "keys", len(got), 2)
	for i, e := range got["default"] {
		want := log[sessionID+"/default"][i]
		same(t, "event", []any{e.Seq, e.Type, e.TurnID, e.ThreadID, e.At}, []any{want.Seq, want.Type, want.TurnID, want.ThreadID, want.At})
	}
	same(t, "order of the sub-agent's", []int64{got[sub][0].Seq, got[sub][1].Seq}, []int64{1, 2})

	memorytest.Must(f.WriteEvents(sessionID, log, sessionfile.EventOptions{Enabled: true, Cap: 2}))(t)
	got, _, err = f.ReadEvents(sessionID)
	ok(t, err)
	same(t, "capped", []int64{int64(len(got["default"])), got["default"][0].Seq, got["default"][1].Seq}, []int64{2, 3, 4})
	after := memorytest.Must(json.Marshal(log))(t)
	same(t, "the log itself", string(after), string(before))
	memorytest.Fails(f.WriteEvents(sessionID, sessionfile.Events{"other/x": nil}, sessionfile.EventOptions{Enabled: true}))(t, agent.CodeInvalid)
	if strings.Contains(string(text), agent.EventToolResponse) {
		t.Errorf("%s", text)
	}
}

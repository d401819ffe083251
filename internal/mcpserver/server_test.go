package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/mcpserver"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

func TestMain(m *testing.M) { tt.Main(m) }

// client connects the official SDK's client over the same pipes as stdin and stdout.
func client(t *testing.T, o mcpserver.Options) *mcp.ClientSession {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- mcpserver.Serve(t.Context(), o, toServer, fromServer) }()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(20 * time.Second):
			t.Error("the server goes on though its client has left")
		}
	})
	return c
}

func call(t *testing.T, c *mcp.ClientSession, name string, args map[string]any) (out map[string]any, failure string) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	require.NoError(t, err)
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		return nil, text
	}
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	return out, ""
}

// Another agent starts a conversation, waits, looks at tasks and trace, answers a
// question and, where it may, approves.
func TestConversationsForOtherAgents(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	c := client(t, mcpserver.Options{C: s.Client, Version: "1", Folder: s.Work, Decide: true})
	tools, err := c.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, tools.Tools, 6)

	done, failure := call(t, c, "send", map[string]any{"text": "script: say hello"})
	require.Empty(t, failure)
	require.Equal(t, "completed", done["status"])
	require.Equal(t, "hello", done["response"])
	thread := done["threadId"]

	again, failure := call(t, c, "send", map[string]any{"text": "script: say more", "thread": thread, "seconds": -1, "messageId": "m-1"})
	require.Empty(t, failure)
	turn, failure := call(t, c, "wait", map[string]any{"thread": thread, "turn": again["turnId"]})
	require.Empty(t, failure)
	require.Equal(t, "more", turn["response"])
	repeated, _ := call(t, c, "send", map[string]any{"text": "script: say more", "thread": thread, "messageId": "m-1"})
	require.Equal(t, again["turnId"], repeated["turnId"], "sent twice it is one message")

	asks, failure := call(t, c, "send", map[string]any{"text": `script: call ask_user {"question":"which one?"} ;; echo chosen`})
	require.Empty(t, failure)
	require.Equal(t, "waiting_for_user", asks["status"])
	question := asks["questions"].([]any)[0].(map[string]any)["questionId"]
	_, failure = call(t, c, "answer", map[string]any{"question": question, "text": "the second"})
	require.Empty(t, failure)
	answered, failure := call(t, c, "wait", map[string]any{"thread": asks["threadId"], "turn": asks["turnId"]})
	require.Empty(t, failure)
	require.Contains(t, answered["response"], "the second")

	wants, failure := call(t, c, "send", map[string]any{"text": `script: call file_write {"path":".spool/x","content":"ran"} ;; echo it`})
	require.Empty(t, failure)
	require.Equal(t, "waiting_for_approval", wants["status"])
	tasks, failure := call(t, c, "tasks", map[string]any{"thread": wants["threadId"]})
	require.Empty(t, failure)
	require.Len(t, tasks["approvals"], 1)
	_, failure = call(t, c, "approve", map[string]any{"approval": wants["pending"].([]any)[0].(map[string]any)["approvalId"], "approve": true})
	require.Empty(t, failure)
	ran, failure := call(t, c, "wait", map[string]any{"thread": wants["threadId"], "turn": wants["turnId"]})
	require.Empty(t, failure)
	require.Contains(t, ran["response"], "Wrote 3 bytes")
	trace, failure := call(t, c, "trace", map[string]any{"thread": "latest"})
	require.Empty(t, failure)
	require.Equal(t, wants["threadId"], trace["thread"].(map[string]any)["id"])
	_, failure = call(t, c, "trace", map[string]any{"thread": "nowhere"})
	require.Contains(t, failure, "there is no thread, session or task nowhere")
}

// A line that is no message is answered, and the next one too.
func TestBadLinesEndNothing(t *testing.T) {
	toServer, write := io.Pipe()
	read, fromServer := io.Pipe()
	go func() { _ = mcpserver.Serve(t.Context(), mcpserver.Options{Version: "1"}, toServer, fromServer) }()
	answers := json.NewDecoder(read)
	type answer struct {
		ID    any
		Error struct{ Code int }
	}
	ask := func(line string) (a answer) {
		t.Helper()
		go func() { _, _ = io.WriteString(write, line+"\n") }()
		require.NoError(t, answers.Decode(&a), line)
		return a
	}
	require.EqualValues(t, 1, ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`).ID)
	for i, line := range []string{"{bad", "[]", "7", "null", "{}", `"x"`, "[1]", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, "\xff", `{"jsonrpc":"2.0"}`} {
		code := -32600
		if line == "{bad" || line == "\xff" {
			code = -32700
		}
		require.Equal(t, answer{Error: struct{ Code int }{code}}, ask(line), line)
		require.EqualValues(t, 10+i, ask(fmt.Sprintf("\n\r\n"+`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, 10+i)).ID, "after %s", line)
	}
	require.EqualValues(t, 99, ask(`[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":99,"method":"ping"}]`).ID)
}

// What decides at the other end may be a model: it decides about calls only if a person
// has said so.
func TestClientsDecideOnlyIfTheyMay(t *testing.T) {
	c := client(t, mcpserver.Options{Version: "1"})
	tools, err := c.ListTools(t.Context(), nil)
	require.NoError(t, err)
	for _, tool := range tools.Tools {
		require.NotEqual(t, "approve", tool.Name)
	}
	_, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "approve", Arguments: map[string]any{"approval": "x", "approve": true}})
	require.ErrorContains(t, err, "approve")
}

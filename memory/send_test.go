package memory_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// What is wrong with a message is said in one place, whichever way it came.
func TestSendRequestCheck(t *testing.T) {
	for want, change := range map[string]func(*memory.SendRequest){
		"no id":                func(r *memory.SendRequest) { r.MessageID = "" },
		"at most 200":          func(r *memory.SendRequest) { r.MessageID = strings.Repeat("x", 201) },
		"made by the store":    func(r *memory.SendRequest) { r.MessageID = "t0123456789abcdef" },
		"UTF-8":                func(r *memory.SendRequest) { r.MessageID = "a\x00" },
		"the message is empty": func(r *memory.SendRequest) { r.Content = agent.Text("") },
		"part 1": func(r *memory.SendRequest) {
			r.Content = agent.Content{Parts: []agent.Part{{Type: "audio", Text: "x"}}}
		},
		`when-busy "later"`:        func(r *memory.SendRequest) { r.WhenBusy = "later" },
		"not JSON":                 func(r *memory.SendRequest) { r.AnswerSchema = json.RawMessage("{") },
		"cannot be steered":        func(r *memory.SendRequest) { r.AnswerSchema, r.WhenBusy = json.RawMessage("{}"), memory.Steer },
		"replaces session":         func(r *memory.SendRequest) { r.ThreadID = "s/default" },
		"names no user":            func(r *memory.SendRequest) { r.UserID = "" },
		`session "a/b"`:            func(r *memory.SendRequest) { r.SessionID = "a/b" },
		`conversation ".."`:        func(r *memory.SendRequest) { r.ConversationID = ".." },
		`agent type "no such one"`: func(r *memory.SendRequest) { r.Agent = "no such one" },
	} {
		r := memory.SendRequest{UserID: "ada", SessionID: "s", MessageID: "m", Content: agent.Text("hi")}
		change(&r)
		err := r.Check()
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), want)
		require.ErrorContains(t, err, want)
	}
	r := memory.SendRequest{UserID: "ada", SessionID: "s", MessageID: "m", Content: agent.Text("hi"), AnswerSchema: json.RawMessage(`{ "type": "object" }`)}
	require.NoError(t, r.Check())
	require.Equal(t, agent.DefaultConversation, r.ConversationID)
	require.Equal(t, memory.Queue, r.WhenBusy, "an answer to a question has no schema")
	require.JSONEq(t, `{"type":"object"}`, string(r.AnswerSchema))
	raw := memorytest.Must(json.Marshal(r))(t)
	require.JSONEq(t, `{"sessionId":"s","conversationId":"default","messageId":"m","content":"hi","whenBusy":"queue","answerSchema":{"type":"object"}}`, string(raw))
}

func TestInProfile(t *testing.T) {
	for _, c := range []struct {
		has, from string
		seen      bool
	}{{"", "", true}, {"work", "", true}, {"", "default", true}, {"default", "default", true}, {"", "work", false}, {"work", "work", true}, {"work", "default", false}} {
		require.Equal(t, c.seen, memory.InProfile(c.has, c.from), "%+v", c)
	}
}

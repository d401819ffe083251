package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func user(text string) Message { return Message{Role: RoleUser, Content: Text(text), TurnID: "t"} }

func calls(ids ...string) Message {
	m := Message{Role: RoleAssistant, TurnID: "t"}
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, NewCall(id, "tool", `{"n":1}`))
	}
	return m
}

func result(id, text string) Message {
	return Message{Role: RoleTool, ToolCallID: id, Content: Text(text), TurnID: "t"}
}

// check holds what strict providers demand.
func check(t *testing.T, out []Message) {
	t.Helper()
	for i := 0; i < len(out); i++ {
		m := out[i]
		require.True(t, utf8.ValidString(m.Content.Value))
		require.NotContains(t, m.Content.Value, "\x00")
		switch {
		case m.Role == RoleTool:
			t.Fatalf("result %s stands alone", m.ToolCallID)
		case len(m.ToolCalls) > 0:
			for _, c := range m.ToolCalls {
				i++
				require.Less(t, i, len(out))
				require.Equal(t, c.ID, out[i].ToolCallID)
				require.NotEmpty(t, out[i].Content.Value)
				require.True(t, json.Valid([]byte(c.Function.Arguments)), c.Function.Arguments)
			}
		default:
			require.False(t, m.Content.IsEmpty())
		}
	}
	if len(out) > 0 {
		require.NotEqual(t, RoleAssistant, out[len(out)-1].Role)
	}
}

func TestFault_B3_TranscriptIsRepaired(t *testing.T) {
	empty := calls("e")
	empty.ToolCalls[0].Function.Arguments = ""
	partial := Message{Role: RoleAssistant, Content: Text("half"), Partial: true}
	old := Message{Role: RoleAssistant, Content: Text("old"), SupersededBy: "t2"}
	for name, in := range map[string][]Message{
		"call without result":     {user("a"), calls("1", "2"), result("2", "x"), user("b")},
		"result without call":     {user("a"), result("9", "x"), user("b")},
		"result apart":            {user("a"), calls("1"), user("b"), result("1", "late")},
		"results in other order":  {user("a"), calls("1", "2"), result("2", "x"), result("1", "y")},
		"doubled result":          {user("a"), calls("1"), result("1", "x"), result("1", "y")},
		"bad bytes":               {user("a\xff\x00b"), calls("1"), result("1", "\xff\xfe\x00")},
		"empty blocks (B7)":       {user(""), user("a"), empty, result("e", "")},
		"ends on the assistant":   {user("a"), {Role: RoleAssistant, Content: Text("answer")}},
		"partial and superseded":  {user("a"), partial, old, user("b")},
		"only an orphaned result": {result("1", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(in)
			require.NoError(t, err)
			out := Transcript(in)
			check(t, out)
			after, err := json.Marshal(in)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after), "the input is not changed")
			for _, m := range out {
				require.NotContains(t, []string{"half", "old"}, m.Content.Value)
			}
		})
	}
	out := Transcript([]Message{user("a"), calls("1", "2"), result("2", "x"), user("b")})
	require.Equal(t, TextNoResult, out[2].Content.Value)
	require.Equal(t, "x", out[3].Content.Value)
}

func TestFault_B6_ShortenAtCharacters(t *testing.T) {
	s := strings.Repeat("🎛️é", 1000)
	for limit := range 200 {
		short := Shorten(s, limit, "")
		require.True(t, utf8.ValidString(short), "limit %d", limit)
		require.Contains(t, short, "bytes left out")
	}
	require.Equal(t, "short", Shorten("short", 5, ""))
}

func TestRow96_Looping(t *testing.T) {
	var m []Message
	for range LoopLength - 1 {
		m = append(m, calls("x"), result("x", "same"))
	}
	require.False(t, Looping(m, "t"))
	m = append(m, calls("x"), result("x", "same"))
	require.True(t, Looping(m, "t"))
	require.False(t, Looping(m, "other turn"))
	m[len(m)-1].Content = Text("different")
	require.False(t, Looping(m, "t"), "another result is progress")
}

// A parent that looks after its sub-agents at work, or waits for them, is no loop,
// however fast it looks. To read the same end again and again is one.
func TestRow96_LookingIsNoLoop(t *testing.T) {
	working := TaskState{AgentType: "general", AgentID: "general-1-a", ThreadID: "agent:general:general-1-a", Status: ThreadRunning, Text: "a line\n\nand more"}
	asks, waits, ended := working, working, working
	asks.Status, waits.Status, ended.Status = ThreadWaitingForApproval, ThreadPending, ThreadCompleted
	end := DelegationResultFormatter{}.Result(SpecialistAgentResult{AgentType: "general", AgentID: "general-1-a", Status: ThreadCompleted, Answer: "\nstatus: running"})
	for text, loops := range map[string]bool{
		FormatTaskState(working):                    false,
		FormatTaskState(asks):                       false,
		FormatTaskList([]TaskState{ended, working}): false,
		FormatTaskList([]TaskState{waits}):          false,
		FormatTaskList([]TaskState{ended}):          true,
		FormatTaskList(nil):                         true,
		end:                                         true,
	} {
		look, same := calls("x"), result("x", text)
		look.ToolCalls[0].Function.Name, same.Name = ToolTaskOutput, ToolTaskOutput
		var m []Message
		for range 2 * LoopLength {
			m = append(m, look, same)
		}
		require.Equal(t, loops, Looping(m, "t"), text)
		for i := range m { // another call beside it that repeats itself
			if i%2 == 0 {
				m[i].ToolCalls = append(calls("y").ToolCalls, m[i].ToolCalls...)
			}
		}
		require.True(t, Looping(m, "t"), text)
	}
}

func TestOnlyRefused(t *testing.T) {
	refused := func(id string, n int, why ErrorReason) Message {
		m := result(id, fmt.Sprint("refused ", n))
		m.Name, m.Status, m.ErrorReason = ToolAssignTask, CallFailed, why
		return m
	}
	var m []Message
	for i := range LoopLength {
		require.False(t, OnlyRefused(m, "t"))
		m = append(m, calls("a", "b"), refused("a", i, ErrPermissionDenied), refused("b", i, ErrNotFound))
	}
	require.True(t, OnlyRefused(m, "t"))
	require.False(t, Looping(m, "t"), "the rounds differ")
	require.False(t, OnlyRefused(m, "other turn"))
	last := &m[len(m)-1]
	last.ErrorReason = ErrTimeout
	require.False(t, OnlyRefused(m, "t"), "a sub-agent that failed was at work")
	*last = result("b", "2")
	require.False(t, OnlyRefused(m, "t"), "another tool is progress")
}

func TestContentRoundTrips(t *testing.T) {
	for _, c := range []Content{Text(""), Text("a"), NullContent(), {Parts: []Part{{Type: "text", Text: "x"}, {Type: "image_url", ImageURL: &ImageURL{URL: "u"}}}}} {
		b, err := json.Marshal(c)
		require.NoError(t, err)
		var got Content
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, c, got)
	}
	var c Content
	require.Error(t, json.Unmarshal([]byte(`{}`), &c))
}

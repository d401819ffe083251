package printer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

// screen shows updates and keeps text and notes in the order they came.
type screen struct {
	l   *Live
	out strings.Builder
}

func newScreen() *screen {
	s := &screen{}
	s.l = NewLive("s/default", "t1", &s.out, func(format string, args ...any) { fmt.Fprintf(&s.out, "| "+format+"\n", args...) })
	return s
}

func (s *screen) text(_ *testing.T, turn, id string, attempt, offset int, text string) {
	s.l.Update(spool.Update{ThreadID: "s/default", Text: &spool.TextUpdate{MessageID: id, TurnID: turn, Attempt: attempt, Offset: offset, Text: text}})
}

func (s *screen) event(t *testing.T, thread, typ string, data map[string]any, saved ...agent.Message) {
	raw, err := json.Marshal(data)
	require.NoError(t, err)
	s.l.Update(spool.Update{ThreadID: thread, Event: &agent.Event{Type: typ, Data: raw}, Messages: saved})
}

func said(id, text string) agent.Message {
	return agent.Message{ID: id, TurnID: "t1", Role: agent.RoleAssistant, Content: agent.Text(text)}
}

// Of calls that run at once each end says which it is.
func TestLiveTellsCallsApart(t *testing.T) {
	s := newScreen()
	call := func(id, name, expression string) {
		s.event(t, "s/default", agent.EventToolCall, map[string]any{"intent": name, "toolCallId": id, "arguments": map[string]any{"expression": expression}})
	}
	end := func(id, name string) {
		s.event(t, "s/default", agent.EventToolResponse, map[string]any{"name": name, "toolCallId": id, "status": "success"})
	}
	call("c1", "calculator", "1+1")
	call("c2", "calculator", "2+2")
	call("c3", "", "")
	end("c2", "calculator")
	end("c3", "")
	end("c1", "calculator")
	assert.Equal(t, `| → calculator(expression=1+1)
| → calculator(expression=2+2)
| → (no name)(expression=)
| ✓ calculator(expression=2+2)
| ✓ (no name)
| ✓ calculator
`, s.out.String())
}

func TestLiveShowsATurn(t *testing.T) {
	s := newScreen()
	s.text(t, "t1", "m1", 1, 0, "let me ")
	s.text(t, "t1", "m1", 1, 7, "see\x1b[2J")
	s.event(t, "s/default", agent.EventToolCall, map[string]any{"intent": "ls", "arguments": map[string]any{"path": "."}})
	s.event(t, "s/default", agent.EventToolCall, map[string]any{"intent": "assign_task", "sub_agent_thread_id": "agent:general:g-1-a"})
	s.event(t, "agent:general:g-1-a", agent.EventToolCall, map[string]any{"intent": "glob", "arguments": map[string]any{}})
	s.event(t, "agent:general:g-1-a", agent.EventToolResponse, map[string]any{"name": "glob", "status": "failed", "durationMs": 5})
	s.event(t, "s/default", agent.EventToolResponse, map[string]any{"name": "assign_task", "status": "success", "durationMs": 1500, "sub_agent_thread_id": "agent:general:g-1-a"})
	s.event(t, "s/default", agent.EventMemoryAppended, nil, said("m1", "let me see\x1b[2J"))
	s.text(t, "t2", "other", 1, 0, "a turn nobody here waits for")
	s.text(t, "t1", "m2", 1, 0, "it is")
	s.event(t, "s/default", agent.EventMemoryAppended, nil, said("m2", "it is done"))
	s.l.Finish(spool.Reply{Response: "it is done"})
	assert.Equal(t, `let me see
| → ls(path=.)
| → general agent:general:g-1-a
|   general: → glob()
|   general: ✗ failed glob 5ms
| ✓ general 1.5s
it is done
`, s.out.String())
}

// A start in the background is not an end.
func TestLiveTellsAStartInTheBackgroundFromAnEnd(t *testing.T) {
	s := newScreen()
	s.event(t, "s/default", agent.EventToolCall, map[string]any{"intent": "assign_task", "toolCallId": "c1", "sub_agent_thread_id": "agent:general:g-1-a",
		"arguments": map[string]any{"agent": "general", "task": "t", "background": true}})
	s.event(t, "s/default", agent.EventToolResponse, map[string]any{"name": "assign_task", "toolCallId": "c1", "status": "success", "sub_agent_thread_id": "agent:general:g-1-a"})
	s.event(t, "agent:general:g-1-a", agent.EventDone, nil)
	assert.Equal(t, "| → general agent:general:g-1-a\n| ⇢ general goes on in the background\n|   general: ✓ done\n", s.out.String())
}

func TestLiveSaysACauseOnce(t *testing.T) {
	s := newScreen()
	s.event(t, "s/default", agent.EventError, map[string]any{"code": "cancelled", "message": "cancelled"})
	s.event(t, "s/default", agent.EventError, map[string]any{"code": "limit"})
	s.event(t, "s/default", agent.EventError, map[string]any{"code": "limit", "message": "100 steps"})
	s.event(t, "s/default", agent.EventToolResponse, map[string]any{"name": "shell", "status": "denied", "errorReason": "edited"})
	s.event(t, "s/default", agent.EventToolResponse, map[string]any{"name": "shell", "status": "denied", "errorReason": "denied"})
	assert.Equal(t, "| ✗ cancelled\n| ✗ limit\n| ✗ limit: 100 steps\n| ✗ edited shell\n| ✗ denied shell\n", s.out.String())
}

func TestLiveBeginsAnewWithANewAttempt(t *testing.T) {
	s := newScreen()
	s.text(t, "t1", "m1", 1, 0, "half an \x1b]0;tit")
	s.text(t, "t1", "m1", 2, 0, "a whole ")
	s.text(t, "t1", "m1", 2, 8, "answer")
	s.event(t, "s/default", agent.EventMemoryAppended, nil, said("m1", "a whole answer"))
	assert.Equal(t, "half an \n| the model call was interrupted; its text starts again\na whole answer\n", s.out.String())
}

func TestLiveReplacesWhatWasNotSaved(t *testing.T) {
	s := newScreen()
	s.text(t, "t1", "m1", 1, 0, "one thing")
	s.event(t, "s/default", agent.EventMemoryAppended, nil, said("m1", "another thing"))
	s.l.Finish(spool.Reply{Response: "an answer from elsewhere"})
	assert.Equal(t, "one thing\nanother thing\nan answer from elsewhere\n", s.out.String())
}

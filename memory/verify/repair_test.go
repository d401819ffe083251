package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/verify"
)

// newDamaged is a scene beside a healthy conversation.
func newDamaged(t *testing.T, b backend) *scene {
	t.Helper()
	c := newSceneOn(t, b)
	memorytest.Must(c.s.Send(t.Context(), memory.SendRequest{
		UserID: "alice", Profile: "default", SessionID: "healthy", ConversationID: "default", MessageID: "m1", Content: agent.Text("x"), WhenBusy: memory.Queue,
	}))(c.t)
	return c
}

// repair repairs parents first and returns what was done.
func (c *scene) repair() (all []string) {
	c.t.Helper()
	threads := memorytest.Must(c.s.Threads(c.t.Context(), memory.ThreadFilter{All: true}))(c.t)
	slices.SortFunc(threads, func(a, b agent.Thread) int { return a.Depth - b.Depth })
	for _, th := range threads {
		all = append(all, memorytest.Must(c.s.Repair(c.t.Context(), th.ID))(c.t)...)
	}
	return all
}

// state is what there is to see of all threads: their numbers and what is said.
func (c *scene) state() string {
	c.t.Helper()
	threads := memorytest.Must(c.s.Threads(c.t.Context(), memory.ThreadFilter{All: true}))(c.t)
	slices.SortFunc(threads, func(a, b agent.Thread) int { return strings.Compare(a.ID, b.ID) })
	var out []string
	for _, th := range threads {
		out = append(out, fmt.Sprintf("%s %s %s %+v", th.ID, th.Status, th.OpenTurnID, th.Metadata))
		for _, m := range memorytest.Must(c.s.Messages(c.t.Context(), th.ID, 0, 0))(c.t) {
			out = append(out, fmt.Sprint(m.Seq, m.ID, m.Role, m.Content, m.ToolCallID, m.Status))
		}
	}
	return strings.Join(out, "\n")
}

// damages are statements, each with what is said of it.
type damages map[string]struct{ damage, says string }

func (d damages) each(t *testing.T, on []backend, run func(t *testing.T, c *scene, damage, says string)) {
	for name, one := range d {
		t.Run(name, func(t *testing.T) {
			for _, b := range on {
				t.Run(b.name, func(t *testing.T) { run(t, newDamaged(t, b), one.damage, one.says) })
			}
		})
	}
}

// TestRow32_PlantedDamageIsRepaired: numbers that do not equal the rows are made equal,
// and results that are missing are written again.
func TestRow32_PlantedDamageIsRepaired(t *testing.T) {
	damages{
		"counts": {`UPDATE threads SET message_count = 99, total_tokens = 1, prompt_tokens = 1, completion_tokens = 7, request_count = 0,` +
			` tool_call_count = 50, total_time_ms = total_time_ms + 5, total_price = 12.5 WHERE message_count > 0`, "messageCount is"},
		"numbers to continue": {`UPDATE threads SET last_event = 1, last_message = 1, last_entry = 0, last_turn = 0, last_child = 0, waiting = 4 WHERE last_event > 1`, "last event is"},
		"results":             {`DELETE FROM messages WHERE thread_id = 's1/default' AND seq IN (3, 4)`, "in the conversation again"},
	}.each(t, backends, func(t *testing.T, c *scene, damage, says string) {
		if done := c.repair(); len(done) > 0 {
			t.Fatalf("a sound store was changed: %q", done)
		}
		want := c.state()
		c.plant(damage)
		if r := c.check(verify.Options{}); r.OK || !slices.Contains(rules(r), verify.RuleAgree) {
			t.Errorf("a check finds %v", r.Violations)
		}
		if done := strings.Join(c.repair(), "\n"); !strings.Contains(done, says) {
			t.Errorf("said %q, want %q", done, says)
		}
		if r := c.check(verify.Options{}); !r.OK {
			t.Errorf("after the repair: %v", r.Violations)
		}
		if again := c.repair(); len(again) > 0 {
			t.Errorf("a second repair: %q", again)
		}
		if got := c.state(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// TestRow32_WhatIsLostIsNamed: nothing else is mended, made again or hidden by lower
// numbers; other threads are checked and can be exported all the same.
func TestRow32_WhatIsLostIsNamed(t *testing.T) {
	damages{
		"the last message":               {`DELETE FROM messages WHERE thread_id = 's1/default' AND seq = 7`, "rule 12: s1/default: lost: message 7"},
		"a message in the middle":        {`DELETE FROM messages WHERE thread_id = 's1/default' AND seq = 2`, "lost: message 2"},
		"all messages":                   {`DELETE FROM messages WHERE thread_id = 's1/default'`, "lost: message 1 to 7"},
		"a message that is damaged":      {`UPDATE messages SET body = '{"x' WHERE thread_id = 's1/default' AND seq = 7`, "rule 13: s1/default: message 7 cannot be read"},
		"a message without content":      {`UPDATE messages SET body = json_remove(body, '$.content') WHERE thread_id = 's1/default' AND seq = 7`, "message 7 has no content"},
		"an answer that was changed":     {`UPDATE messages SET body = replace(body, 'reply', 'other') WHERE thread_id = 's1/default' AND seq = 7`, "message 7 is not the answer"},
		"a number in the text":           {`UPDATE messages SET body = json_set(body, '$.seq', 8) WHERE thread_id = 's1/default' AND seq = 7`, "says that it is message 8"},
		"a retry that never was":         {`UPDATE messages SET superseded_by = 'zzz' WHERE seq = 7`, "superseded by turn zzz"},
		"the end of a log":               {`DELETE FROM events WHERE thread_id = 's1/default' AND seq > 8`, "lost: event 9 to "},
		"an event in the middle":         {`DELETE FROM events WHERE thread_id = 's1/default' AND seq = 1`, "lost: event 1"},
		"an event that is damaged":       {`UPDATE events SET data = '{"x' WHERE thread_id = 's1/default' AND seq = 3`, "rule 13: s1/default: event 3 ("},
		"a reply that is damaged":        {`UPDATE steps SET reply = '{"x' WHERE turn_id IN (SELECT id FROM turns WHERE n = 2)`, "rule 13: s1/default: reply "},
		"a task that cannot be read":     {`UPDATE tasks SET updated_at = 'tool'`, "rule 13: s1/default: "},
		"a damaged inbox entry":          {`UPDATE inbox SET content = '{"x' WHERE thread_id = 's1/default'`, "rule 13: s1/default: inbox entry "},
		"a waiting message":              {`UPDATE threads SET last_entry = 9, waiting = 1 WHERE id = 's1/default'`, "lost: inbox entry 4 to 9"},
		"inbox entries":                  {`DELETE FROM inbox WHERE thread_id = 's1/default'`, "lost: inbox entry 1 to "},
		"an assignment":                  {`DELETE FROM inbox WHERE kind = 'assign'`, "lost: the inbox entry that opened turn "},
		"step records":                   {`DELETE FROM steps`, "lost: step records of turn "},
		"configurations":                 {`DELETE FROM configs`, "lost: the configuration "},
		"turns":                          {`DELETE FROM turns WHERE thread_id = 's1/default'`, ", which the log tells of"},
		"a call":                         {`DELETE FROM tool_calls WHERE name = 'lookup'`, "(lookup), which message 2 makes"},
		"tasks":                          {`DELETE FROM tasks WHERE type = 'agent'`, "lost: the task of call "},
		"a thread that is linked":        {`DELETE FROM threads WHERE kind = 'subagent'`, "which does not exist"},
		"open turn that is closed":       {`UPDATE threads SET open_turn = 't0123456789abcdef', status = 'running' WHERE id = 's1/default'`, "is not open"},
		"state of a thread at rest":      {`UPDATE threads SET status = 'waiting_for_approval' WHERE message_count > 0`, "no turn is open, but the thread is waiting_for_approval"},
		"open turn whose end is logged":  {`UPDATE turns SET state = 'open', closed = '', outcome = '', closed_at = 0 WHERE n = 2`, "has a done or error event"},
		"end of a turn":                  {`DELETE FROM events WHERE type = 'done' AND seq = (SELECT MAX(seq) FROM events e WHERE e.thread_id = events.thread_id)`, "lost: event"},
		"end of a turn in the middle":    {`DELETE FROM events WHERE type = 'done' AND thread_id = 's1/default' AND seq < (SELECT MAX(seq) FROM events e WHERE e.thread_id = events.thread_id)`, "lost: event"},
		"a reservation":                  {`INSERT INTO reservations SELECT id, 1, 's1/default', 10, 1.0 FROM turns WHERE n = 2`, "is closed and holds a reservation"},
		"a call without an end":          {`UPDATE tool_calls SET status = 'running', attempts = 2 WHERE delegation = 0`, "has no end, and its turn has"},
		"an approval nobody can decide":  {`INSERT INTO asks SELECT 'appr_x', 'approval', thread_id, thread_id, 'u', id, 9, '', 'orchestrator', '', '', '', '', '[]', '[]', '', '', '', 0, opened_at FROM turns WHERE n = 2`, "the turn of the open approval or question appr_x is closed"},
		"a question nobody can answer":   {`INSERT INTO asks SELECT 'ques_x', 'question', thread_id, thread_id, 'u', id, 9, 'call_x', 'orchestrator', '', '', 'a?', '', '', '', '', '', '', 0, opened_at FROM turns WHERE n = 2`, "the turn of the open approval or question ques_x is closed"},
		"the state of tasks":             {`UPDATE tasks SET status = 'running'`, "has no end, and its call or turn has"},
		"the user of a sub-agent":        {`UPDATE threads SET user_id = 'eve' WHERE kind = 'subagent'`, "is not as its parent's"},
		"the root and the depth":         {`UPDATE threads SET root_id = id, depth = 7 WHERE kind = 'subagent'`, "is not as its parent's"},
		"the kind":                       {`UPDATE threads SET kind = 'main' WHERE kind = 'subagent'`, "a list of conversations shows it"},
		"the parent of a sub-agent":      {`UPDATE threads SET parent_id = 'other/default' WHERE kind = 'subagent'`, "whose parent is \"other/default\""},
		"another conversation as parent": {`UPDATE threads SET parent_id = 'healthy/default' WHERE kind = 'subagent'`, "whose parent is \"healthy/default\""},
		"the call of a sub-agent":        {`UPDATE threads SET parent_call_id = 'nope' WHERE kind = 'subagent'`, "call nope made it"},
		"the task of a sub-agent":        {`UPDATE threads SET task_id = 'nope' WHERE kind = 'subagent'`, "it works on task nope"},
		"the child of a call":            {`UPDATE tool_calls SET child_thread = 'agent:general:gone' WHERE delegation = 1`, "name another sub-agent"},
		"no child of a call":             {`UPDATE tool_calls SET child_thread = '' WHERE delegation = 1`, "name another sub-agent"},
		"the link of an event":           {`UPDATE events SET data = json_set(data, '$.sub_agent_thread_id', 's1/default') WHERE type = 'tool_call' AND data LIKE '%sub_agent_thread_id%'`, "names thread s1/default"},
		"the sub-agent of a task":        {`UPDATE tasks SET sub_agent = 'gone' WHERE type = 'agent'`, "name another sub-agent"},
		"the delegator of a turn":        {`UPDATE turns SET delegator_thread = 'x/default' WHERE entry_kind = 'assign'`, "tasks in \"x/default\", want 1"},
		"the session":                    {`UPDATE sessions SET user_id = 'eve' WHERE id = 's1'`, "lost: its session s1 of alice"},
	}.each(t, backends[:1], func(t *testing.T, c *scene, damage, says string) { // the same queries look for all of it
		c.plant(damage)
		for range 2 {
			c.repair()
			r := c.check(verify.Options{})
			if r.OK || r.Checked < 2 {
				t.Fatalf("%+v", r)
			}
			all := ""
			for _, v := range r.Violations {
				if (v.ThreadID == "healthy/default" || v.ThreadID == "") && !strings.Contains(says, "configuration") {
					t.Error(v)
				}
				all += v.String() + "\n"
			}
			if !strings.Contains(all, says) {
				t.Errorf("found %s, want %s", all, says)
			}
		}
		memorytest.Must(c.s.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: "healthy/default"}))(c.t)
	})
}

// TestRow32_TheDamagedRowIsNamed where it is read.
func TestRow32_TheDamagedRowIsNamed(t *testing.T) {
	c := newScene(t)
	c.plant(`UPDATE messages SET body = '{"x' WHERE thread_id = 's1/default' AND seq = 2`)
	c.plant(`DELETE FROM configs`)
	_, err := c.s.Messages(t.Context(), "s1/default", 0, 0)
	if !memory.IsDamaged(err) || !strings.Contains(err.Error(), "message 2 of thread s1/default") {
		t.Error(err)
	}
	if list, err := c.s.Threads(t.Context(), memory.ThreadFilter{All: true}); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

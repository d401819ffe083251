package sqlite_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/verify"
)

// TestRow32_WhatIsToldElsewhereIsRestored: messages, events and links that other
// rows tell of are made again as they were.
func TestRow32_WhatIsToldElsewhereIsRestored(t *testing.T) {
	for name, c := range map[string]struct{ damage, says string }{
		"the final answer":            {`DELETE FROM messages WHERE thread_id = 's/default' AND seq = 7`, "message 7 is in the conversation again"},
		"the user's message":          {`DELETE FROM messages WHERE thread_id = 's/default' AND seq = 1`, "message 1 is in the conversation again, as the inbox tells"},
		"a round":                     {`DELETE FROM messages WHERE thread_id = 's/default' AND seq BETWEEN 2 AND 5`, "message 4 is in the conversation again"},
		"all messages":                {`DELETE FROM messages WHERE thread_id = 's/default'`, "message 1 is in the conversation again"},
		"a message that is damaged":   {`UPDATE messages SET body = '{"x' WHERE thread_id = 's/default' AND seq = 2`, "message 2 says again what step"},
		"a message without content":   {`UPDATE messages SET body = json_remove(body, '$.content') WHERE thread_id = 's/default' AND seq = 7`, "message 7 says again"},
		"an answer that was changed":  {`UPDATE messages SET body = replace(body, 'all done', 'nothing') WHERE thread_id = 's/default' AND seq = 7`, "message 7 says again"},
		"a number that was changed":   {`UPDATE messages SET seq = 9 WHERE thread_id = 's/default' AND seq = 7`, "message 7 stands in its place again"},
		"another number in the text":  {`UPDATE messages SET body = json_set(body, '$.seq', 8) WHERE thread_id = 's/default' AND seq = 7`, "message 7 says again"},
		"the end of the log":          {`DELETE FROM events WHERE thread_id = 's/default' AND seq > (SELECT MAX(seq) - 3 FROM events e WHERE e.thread_id = 's/default')`, "the log has the answer"},
		"an event in the middle":      {`DELETE FROM events WHERE thread_id = 's/default' AND type = 'tool_call' AND seq = (SELECT MIN(seq) FROM events e WHERE e.thread_id = 's/default' AND e.type = 'tool_call')`, "the log has the tool_call event"},
		"the session":                 {`PRAGMA foreign_keys = 0; DELETE FROM sessions`, "session s of "},
		"the user of a sub-agent":     {`UPDATE threads SET user_id = 'eve' WHERE kind = 'subagent'`, "its user_id is "},
		"the root and the depth":      {`UPDATE threads SET root_id = id, depth = 7 WHERE kind = 'subagent'`, "its depth is 1, not 7"},
		"the kind":                    {`UPDATE threads SET kind = 'main' WHERE kind = 'subagent'`, "its kind is subagent"},
		"the parent of a sub-agent":   {`UPDATE threads SET parent_id = 'other/default' WHERE kind = 'subagent'`, "its parent_id is s/default, not other/default"},
		"the call of a sub-agent":     {`UPDATE threads SET parent_call_id = 'nope' WHERE kind = 'subagent'`, "its parent_call_id is call_"},
		"the child of a call":         {`UPDATE tool_calls SET child_thread = 'agent:general:gone' WHERE delegation = 1`, "names it, not agent:general:gone"},
		"the link of an event":        {`UPDATE events SET data = json_set(data, '$.sub_agent_thread_id', 's/default') WHERE type = 'tool_call' AND data LIKE '%sub_agent_thread_id%'`, "names it, not s/default"},
		"the sub-agent of a task":     {`UPDATE tasks SET sub_agent = 'gone' WHERE type = 'agent'`, "names it, not gone"},
		"the delegator of a turn":     {`UPDATE turns SET delegator_thread = 'x/default' WHERE entry_kind = 'assign'`, "not by "},
		"the state of tasks":          {`UPDATE tasks SET status = 'running'`, "as its turn, not running"},
		"a reference to a retry":      {`UPDATE messages SET superseded_by = 'zzz' WHERE seq = 7`, "message 7 is superseded by none, not by zzz"},
		"an event's number of thread": {`UPDATE threads SET last_event = 1`, "last event is"},
	} {
		t.Run(name, func(t *testing.T) {
			s, plant := damagedStore(t)
			want, before := counts(t, s), transcripts(t, s)
			plant(c.damage)
			if report, err := verify.Check(t.Context(), s, verify.Options{}); err != nil || report.OK {
				t.Errorf("a check finds nothing: %v", err)
			}
			done := strings.Join(repairAll(t, s), "\n")
			if !strings.Contains(done, c.says) {
				t.Errorf("said %q, want %q", done, c.says)
			}
			memorytest.Sound(t, s)
			if got := counts(t, s); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got := transcripts(t, s); got != before {
				t.Errorf("got\n%s\nwant\n%s", got, before)
			}
		})
	}
}

// transcripts are what is said in all threads.
func transcripts(t *testing.T, s memory.Reader) string {
	t.Helper()
	threads, err := s.Threads(t.Context(), memory.ThreadFilter{All: true})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, th := range threads {
		messages, err := s.Messages(t.Context(), th.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			said[strings.Join([]string{th.ID, string(rune('0' + m.Seq)), m.ID, string(m.Role), m.Content.String(), m.Timestamp.String()}, " ")] = true
		}
	}
	return strings.Join(sortedKeys(said), "\n")
}

// TestRow32_WhatIsLostIsNamed: what nothing tells any more is not hidden by
// lower numbers; the rest of the store is checked and can be read all the same.
func TestRow32_WhatIsLostIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ damage, says string }{
		"a message": {`DELETE FROM messages WHERE thread_id = 's/default' AND seq = 7; DELETE FROM steps;` +
			` DELETE FROM events WHERE thread_id = 's/default' AND type = 'assistant_message'`, "message 7 is lost"},
		"a message that is damaged": {`UPDATE messages SET body = '{"x' WHERE thread_id = 's/default' AND seq = 7; DELETE FROM steps;` +
			` DELETE FROM events WHERE thread_id = 's/default' AND type = 'assistant_message'`, "message 7 cannot be read"},
		"the end of a log": {`DELETE FROM events WHERE thread_id = 's/default' AND seq > 8`, "are lost"},
		"an event":         {`UPDATE events SET data = '{"x' WHERE thread_id = 's/default' AND seq = 3`, "event 3 ("},
		"a waiting message": {`INSERT INTO inbox SELECT thread_id, 9, 'message', 'typed', 'waiting', '', 'tx', '', content, '', '', '', 0, '', '', '', '', '', 0, '', '', created_at, 0, ''` +
			` FROM inbox WHERE thread_id = 's/default' AND seq = 1; UPDATE threads SET last_entry = 9, waiting = 1 WHERE id = 's/default'; DELETE FROM inbox WHERE seq = 9`, "inbox entries "},
		"a turn": {`PRAGMA foreign_keys = 0; DELETE FROM turns WHERE thread_id = 's/default'`, "turn 1 is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			s, plant := damagedStore(t)
			_, err := s.Send(t.Context(), memorytest.Request("healthy", "m1"))
			if err != nil {
				t.Fatal(err)
			}
			if name == "a turn" {
				c.says = "is lost: other rows tell of it"
			}
			plant(c.damage)
			for range 2 {
				repairAll(t, s)
				report, err := verify.Check(t.Context(), s, verify.Options{})
				if err != nil || report.OK || report.Checked != 4 {
					t.Fatalf("%+v, %v", report, err)
				}
				all := ""
				for _, v := range report.Violations {
					if v.ThreadID == "healthy/default" || v.ThreadID == "" {
						t.Error(v)
					}
					all += v.String() + "\n"
				}
				if !strings.Contains(all, "s/default: "+c.says) && !strings.Contains(all, c.says) {
					t.Errorf("found %s, want %s", all, c.says)
				}
			}
			if _, err := s.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: "healthy/default"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRow32_AMovedSubAgentLinksNobody: what a sub-agent's changed row names as its
// parent is healthy and stays as it is.
func TestRow32_AMovedSubAgentLinksNobody(t *testing.T) {
	s, plant := damagedStore(t)
	if _, err := s.Send(t.Context(), memorytest.Request("healthy", "m1")); err != nil {
		t.Fatal(err)
	}
	events := func() int {
		list, err := s.Events(t.Context(), "healthy/default", 0, 0)
		if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
			t.Fatal(err)
		}
		return len(list)
	}
	before := events()
	plant(`UPDATE threads SET parent_id = 'healthy/default' WHERE kind = 'subagent'`)
	repairAll(t, s)
	if events() != before {
		t.Error("a false link was made")
	}
	memorytest.Sound(t, s)
}

// TestRow32_TheDamagedRowIsNamed where it is read.
func TestRow32_TheDamagedRowIsNamed(t *testing.T) {
	s, plant := damagedStore(t)
	plant(`UPDATE messages SET body = '{"x' WHERE thread_id = 's/default' AND seq = 2`)
	plant(`DELETE FROM configs`)
	s2 := s
	_, err := s2.Messages(t.Context(), "s/default", 0, 0)
	if !memory.IsDamaged(err) || !strings.Contains(err.Error(), "message 2 of thread s/default") {
		t.Error(err)
	}
	if list, err := s2.Threads(t.Context(), memory.ThreadFilter{All: true}); err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

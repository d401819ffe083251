package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sqlite"
	"github.com/spool-agents/spool/memory/verify"
)

// damagedStore is a store with a main thread that ran a tool and delegated twice,
// once in the background, beside a healthy one, and a way to write behind its back.
func damagedStore(t *testing.T) (*sqlite.Store, func(query string, args ...any)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spool.db")
	s := mustOpen(t, path, sqlite.Options{})
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Send(ctx, memorytest.Request("s", "m1"))
	check(err)
	claim, err := s.TakeNext(ctx, memory.TakeRequest{ThreadID: "s/default", RunID: "run"})
	check(err)
	turn := claim.Turn
	reply := func(turn *memory.Turn, step int, r agent.ModelReply, delegations ...bool) []agent.ToolCall {
		r.Usage = agent.Usage{PromptTokens: 3, CompletionTokens: 2, Price: 0.25}
		st, err := s.BeginModel(ctx, memory.ModelBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step})
		check(err)
		stored, err := s.SaveReply(ctx, memory.ReplyRecord{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: st.Attempt, Reply: r, Delegations: delegations})
		check(err)
		return stored.Calls
	}
	assign := agent.NewCall("x", agent.ToolAssignTask, `{}`)
	calls := reply(turn, 1, agent.ModelReply{Calls: []agent.Call{agent.NewCall("x", "lookup", `{}`), assign, assign}}, false, true, true)
	st, err := s.BeginTool(ctx, memory.ToolBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: calls[0].ID, Repeatable: true})
	check(err)
	check(s.SaveResult(ctx, memory.ToolOutcome{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: calls[0].ID, Attempt: st.Attempt, Result: agent.ToolOK("found")}))
	for i, c := range calls[1:] {
		d, err := s.OpenDelegation(ctx, memory.DelegationRequest{
			ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: c.ID, Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "look", Background: i == 1,
			Limits: memory.DelegationLimits{MaxDepth: 1},
		})
		check(err)
		claim, err := s.TakeNext(ctx, memory.TakeRequest{ThreadID: d.ChildThread, RunID: "run"})
		check(err)
		reply(claim.Turn, 1, agent.ModelReply{Content: "the finding"})
		_, err = s.CloseTurn(ctx, memory.CloseRequest{ThreadID: d.ChildThread, TurnID: claim.Turn.ID, Outcome: agent.ThreadCompleted, Step: 1})
		check(err)
	}
	_, err = s.TakeChildResult(ctx, memory.ChildResultRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: calls[1].ID})
	check(err)
	_, err = s.SaveToolRound(ctx, memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1})
	check(err)
	reply(turn, 2, agent.ModelReply{Content: "all done"})
	_, err = s.CloseTurn(ctx, memory.CloseRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Outcome: agent.ThreadCompleted, Step: 2})
	check(err)
	_, err = s.Send(ctx, memorytest.Request("healthy", "m1"))
	check(err)
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	check(err)
	t.Cleanup(func() { _ = db.Close() })
	return s, func(query string, args ...any) {
		t.Helper()
		res, err := db.ExecContext(ctx, query, args...)
		check(err)
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			t.Fatalf("%s changed %d rows, %v", query, n, err)
		}
	}
}

// repairAll repairs parents first and returns what was done.
func repairAll(t *testing.T, s *sqlite.Store) []string {
	t.Helper()
	threads, err := s.Threads(t.Context(), memory.ThreadFilter{All: true})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(threads, func(a, b agent.Thread) int { return a.Depth - b.Depth })
	var all []string
	for _, th := range threads {
		done, err := s.Repair(t.Context(), th.ID)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, done...)
	}
	return all
}

// state is what there is to see of all threads: their numbers and what is said.
func state(t *testing.T, s *sqlite.Store) string {
	t.Helper()
	threads, err := s.Threads(t.Context(), memory.ThreadFilter{All: true})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(threads, func(a, b agent.Thread) int { return strings.Compare(a.ID, b.ID) })
	var out []string
	for _, th := range threads {
		numbers, err := json.Marshal(th.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(th.ID, th.Status, th.OpenTurnID, string(numbers)))
		messages, err := s.Messages(t.Context(), th.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			out = append(out, fmt.Sprint(m.Seq, m.ID, m.Role, m.Content, m.ToolCallID, m.Status))
		}
	}
	return strings.Join(out, "\n")
}

// TestRow32_PlantedDamageIsRepaired: counters, states and links that do not equal
// the rows are made equal; ends and results that are missing are written again.
func TestRow32_PlantedDamageIsRepaired(t *testing.T) {
	for name, c := range map[string]struct{ damage, says string }{
		"counts": {`UPDATE threads SET message_count = 99, total_tokens = 1, prompt_tokens = 0, completion_tokens = 7, request_count = 0,` +
			` tool_call_count = 50, total_time_ms = total_time_ms + 5, total_price = 12.5`, "messageCount is"},
		"numbers to continue":            {`UPDATE threads SET last_event = 1, last_message = 1, last_entry = 0, last_turn = 0, last_child = 0, waiting = 4 WHERE last_event > 1`, "last event is"},
		"open turn that is closed":       {`UPDATE threads SET open_turn = 't0123456789abcdef', status = 'running' WHERE kind = 'main'`, "its open turn is none"},
		"state of a thread at rest":      {`UPDATE threads SET status = 'waiting_for_approval'`, "its state is completed"},
		"open turn whose end is logged":  {`UPDATE turns SET state = 'open', closed = '', outcome = '', closed_at = 0 WHERE entry_kind = 'message'`, "as the log says"},
		"end of a turn":                  {`DELETE FROM events WHERE type = 'done' AND seq = (SELECT MAX(seq) FROM events e WHERE e.thread_id = events.thread_id)`, "done event"},
		"results":                        {`DELETE FROM messages WHERE thread_id = 's/default' AND seq IN (3, 5)`, "in the conversation again"},
		"a reservation":                  {`INSERT INTO reservations SELECT id, 1, 's/default', 10, 1.0 FROM turns WHERE entry_kind = 'message'`, "given back"},
		"a call without an end":          {`UPDATE tool_calls SET status = 'running' WHERE delegation = 0`, "ended as success"},
		"an approval nobody can decide":  {`INSERT INTO approvals SELECT 'appr_x', thread_id, thread_id, 'u', id, 9, 'orchestrator', '', '[]', '[]', '', '', 0, opened_at FROM turns WHERE entry_kind = 'message'`, "settled as aborted"},
		"a question nobody can answer":   {`INSERT INTO questions SELECT 'ques_x', thread_id, thread_id, 'u', id, 9, 'call_x', 'orchestrator', '', '', 'a?', 'open', '', '', '', 0, opened_at FROM turns WHERE entry_kind = 'message'`, "question ques_x is settled as aborted"},
		"the state of tasks":             {`UPDATE tasks SET status = 'running'`, "as its turn"},
		"the user of a sub-agent":        {`UPDATE threads SET user_id = 'eve' WHERE kind = 'subagent'`, "its user_id is "},
		"the root and the depth":         {`UPDATE threads SET root_id = id, depth = 7 WHERE kind = 'subagent'`, "its depth is 1, not 7"},
		"the kind":                       {`UPDATE threads SET kind = 'main' WHERE kind = 'subagent'`, "its kind is subagent"},
		"the parent of a sub-agent":      {`UPDATE threads SET parent_id = 'other/default' WHERE kind = 'subagent'`, "its parent is s/default, not other/default"},
		"another conversation as parent": {`UPDATE threads SET parent_id = 'healthy/default' WHERE kind = 'subagent'`, "its parent is s/default, not healthy/default"},
		"the call of a sub-agent":        {`UPDATE threads SET parent_call_id = 'nope' WHERE kind = 'subagent'`, "its creating call is call_"},
		"the child of a call":            {`UPDATE tool_calls SET child_thread = 'agent:general:gone' WHERE delegation = 1`, "not agent:general:gone"},
		"the link of an event":           {`UPDATE events SET data = json_set(data, '$.sub_agent_thread_id', 's/default') WHERE type = 'tool_call' AND data LIKE '%sub_agent_thread_id%'`, "not s/default"},
		"the sub-agent of a task":        {`UPDATE tasks SET sub_agent = 'gone' WHERE type = 'agent'`, "not gone"},
		"the delegator of a turn":        {`UPDATE turns SET delegator_thread = 'x/default' WHERE entry_kind = 'assign'`, "not x/default"},
	} {
		t.Run(name, func(t *testing.T) {
			s, plant := damagedStore(t)
			if done := repairAll(t, s); len(done) > 0 {
				t.Fatalf("a sound store was changed: %q", done)
			}
			want := state(t, s)
			plant(c.damage)
			if report, err := verify.Check(t.Context(), s, verify.Options{}); err != nil || report.OK {
				t.Errorf("a check finds nothing: %v", err)
			}
			done := strings.Join(repairAll(t, s), "\n")
			if !strings.Contains(done, c.says) {
				t.Errorf("said %q, want %q", done, c.says)
			}
			memorytest.Sound(t, s)
			if again := repairAll(t, s); len(again) > 0 {
				t.Errorf("a second repair: %q", again)
			}
			if got := state(t, s); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestRow32_WhatIsLostIsNamed: nothing else is made again or hidden by lower
// numbers; other threads are checked and can be exported all the same.
func TestRow32_WhatIsLostIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ damage, says string }{
		"the last message":           {`DELETE FROM messages WHERE thread_id = 's/default' AND seq = 7`, "lost: message 7"},
		"a message in the middle":    {`DELETE FROM messages WHERE thread_id = 's/default' AND seq = 2`, "lost: message 2"},
		"all messages":               {`DELETE FROM messages WHERE thread_id = 's/default'`, "lost: message 1 to 7"},
		"a message that is damaged":  {`UPDATE messages SET body = '{"x' WHERE thread_id = 's/default' AND seq = 7`, "message 7 cannot be read"},
		"a message without content":  {`UPDATE messages SET body = json_remove(body, '$.content') WHERE thread_id = 's/default' AND seq = 7`, "message 7 has no content"},
		"an answer that was changed": {`UPDATE messages SET body = replace(body, 'all done', 'nothing') WHERE thread_id = 's/default' AND seq = 7`, "message 7 is not the answer"},
		"a number in the text":       {`UPDATE messages SET body = json_set(body, '$.seq', 8) WHERE thread_id = 's/default' AND seq = 7`, "says that it is message 8"},
		"a retry that never was":     {`UPDATE messages SET superseded_by = 'zzz' WHERE seq = 7`, "superseded by turn zzz"},
		"the end of a log":           {`DELETE FROM events WHERE thread_id = 's/default' AND seq > 8`, "lost: event 9 to "},
		"an event in the middle":     {`DELETE FROM events WHERE thread_id = 's/default' AND seq = 1`, "lost: event 1"},
		"an event that is damaged":   {`UPDATE events SET data = '{"x' WHERE thread_id = 's/default' AND seq = 3`, "event 3 ("},
		"a waiting message": {`INSERT INTO inbox SELECT thread_id, 9, 'message', 'typed', 'waiting', '', 'tx', '', content, '', '', '', 0, '', '', '', '', '', 0, '', '', created_at, 0, ''` +
			` FROM inbox WHERE thread_id = 's/default' AND seq = 1; UPDATE threads SET last_entry = 9, waiting = 1 WHERE id = 's/default'; DELETE FROM inbox WHERE seq = 9`, "lost: inbox entry "},
		"a turn":                        {`PRAGMA foreign_keys = 0; DELETE FROM turns WHERE thread_id = 's/default'`, ", which the log tells of"},
		"a call":                        {`PRAGMA foreign_keys = 0; DELETE FROM tool_calls WHERE name = 'lookup'`, "(lookup), which message 2 makes"},
		"tasks":                         {`DELETE FROM tasks WHERE type = 'agent'`, "lost: the task of call "},
		"the end of a background child": {`DELETE FROM inbox WHERE kind = 'child' AND background = 1`, "stands nowhere"},
		"a thread that is linked":       {`DELETE FROM threads WHERE kind = 'subagent'`, "which does not exist"},
		"the session":                   {`PRAGMA foreign_keys = 0; DELETE FROM sessions WHERE id = 's'`, "lost: its session s of u"},
	} {
		t.Run(name, func(t *testing.T) {
			s, plant := damagedStore(t)
			plant(c.damage)
			for range 2 {
				repairAll(t, s)
				report, err := verify.Check(t.Context(), s, verify.Options{})
				if err != nil || report.OK || report.Checked < 2 {
					t.Fatalf("%+v, %v", report, err)
				}
				all := ""
				for _, v := range report.Violations {
					if v.ThreadID == "healthy/default" || v.ThreadID == "" {
						t.Error(v)
					}
					all += v.String() + "\n"
				}
				if !strings.Contains(all, c.says) {
					t.Errorf("found %s, want %s", all, c.says)
				}
			}
			if _, err := s.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: "healthy/default"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRow32_TheDamagedRowIsNamed where it is read.
func TestRow32_TheDamagedRowIsNamed(t *testing.T) {
	s, plant := damagedStore(t)
	plant(`UPDATE messages SET body = '{"x' WHERE thread_id = 's/default' AND seq = 2`)
	plant(`DELETE FROM configs`)
	_, err := s.Messages(t.Context(), "s/default", 0, 0)
	if !memory.IsDamaged(err) || !strings.Contains(err.Error(), "message 2 of thread s/default") {
		t.Error(err)
	}
	if list, err := s.Threads(t.Context(), memory.ThreadFilter{All: true}); err != nil || len(list) != 4 {
		t.Errorf("%v, %v", list, err)
	}
}

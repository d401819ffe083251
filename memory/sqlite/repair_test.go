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
// once in the background, and a way to write behind its back.
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

// counts are the numbers of all threads, with their states.
func counts(t *testing.T, s *sqlite.Store) string {
	t.Helper()
	threads, err := s.Threads(t.Context(), memory.ThreadFilter{All: true})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(threads, func(a, b agent.Thread) int { return strings.Compare(a.ID, b.ID) })
	var out []string
	for _, th := range threads {
		text, err := json.Marshal(th.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(th.ID, th.Status, th.OpenTurnID, string(text)))
	}
	return strings.Join(out, "\n")
}

// TestRow32_PlantedDamageIsRepaired: metadata that does not equal the rows is
// counted anew, and what is missing is made again from what is left.
func TestRow32_PlantedDamageIsRepaired(t *testing.T) {
	for name, c := range map[string]struct {
		damage string
		says   string
	}{
		"counts": {`UPDATE threads SET message_count = 99, total_tokens = 1, prompt_tokens = 0, completion_tokens = 7, request_count = 0,` +
			` tool_call_count = 50, total_time_ms = total_time_ms + 5, total_price = 12.5`, "messageCount is"},
		"numbers to continue":            {`UPDATE threads SET last_event = last_event + 3, last_message = 1, last_entry = 0, last_turn = 0, last_child = 0, waiting = 4`, "last event is"},
		"open turn that is closed":       {`UPDATE threads SET open_turn = 't0123456789abcdef', status = 'running' WHERE kind = 'main'`, "its open turn is none"},
		"state of a thread at rest":      {`UPDATE threads SET status = 'waiting_for_approval'`, "its state is completed"},
		"open turn whose end is logged":  {`UPDATE turns SET state = 'open', closed = '', outcome = '', closed_at = 0 WHERE entry_kind = 'message'`, "as the log says"},
		"end of a turn":                  {`DELETE FROM events WHERE type = 'done' AND seq = (SELECT MAX(seq) FROM events e WHERE e.thread_id = events.thread_id)`, "done event"},
		"task":                           {`DELETE FROM tasks WHERE type = 'agent'`, "is there again"},
		"end of a background child":      {`DELETE FROM inbox WHERE kind = 'child' AND background = 1`, "is delivered to"},
		"results at the end":             {`DELETE FROM messages WHERE thread_id = 's/default' AND seq > 3`, "in the conversation again"},
		"a reservation":                  {`INSERT INTO reservations SELECT id, 1, 's/default', 10, 1.0 FROM turns WHERE entry_kind = 'message'`, "given back"},
		"a call without an end":          {`UPDATE tool_calls SET status = 'running' WHERE delegation = 0`, "ended as success"},
		"an approval nobody can decide":  {`INSERT INTO asks SELECT 'appr_x', 'approval', thread_id, thread_id, 'u', id, 9, '', 'orchestrator', '', '', '', '', '[]', '[]', '', '', '', 0, opened_at FROM turns WHERE entry_kind = 'message'`, "settled as aborted"},
		"a question nobody can answer":   {`INSERT INTO asks SELECT 'ques_x', 'question', thread_id, thread_id, 'u', id, 9, 'call_x', 'orchestrator', '', '', 'a?', '', '', '', '', '', '', 0, opened_at FROM turns WHERE entry_kind = 'message'`, "question ques_x is settled as aborted"},
		"second turn that never was run": {`INSERT INTO turns SELECT * FROM (SELECT 'tffffffffffffffff', thread_id, 2, entry_kind, 'other', '', 0, 'open', '', '', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, '', '', '', '', '', 0, '', 0, '', 0, opened_at, 0, '', 0, 0.0, 0, 0, '', '' FROM turns WHERE entry_kind = 'message')`, "its open turn is tffffffffffffffff"},
	} {
		t.Run(name, func(t *testing.T) {
			s, plant := damagedStore(t)
			memorytest.Sound(t, s)
			if done := repairAll(t, s); len(done) > 0 {
				t.Fatalf("a sound store was changed: %q", done)
			}
			want := counts(t, s)
			plant(c.damage)
			done := strings.Join(repairAll(t, s), "\n")
			if !strings.Contains(done, c.says) {
				t.Errorf("said %q, want %q", done, c.says)
			}
			memorytest.Sound(t, s)
			if again := repairAll(t, s); len(again) > 0 {
				t.Errorf("a second repair: %q", again)
			}
			if strings.HasPrefix(name, "counts") || strings.HasPrefix(name, "numbers") || strings.HasPrefix(name, "state") {
				if got := counts(t, s); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			}
		})
	}
}

// TestWhatCannotBeRepairedIsLeft and still told by a check.
func TestWhatCannotBeRepairedIsLeft(t *testing.T) {
	for name, damage := range map[string]string{
		"an event in the middle":  `DELETE FROM events WHERE thread_id = 's/default' AND seq = 1`,
		"a result in the middle":  `DELETE FROM messages WHERE thread_id = 's/default' AND seq = 3; DELETE FROM tool_calls WHERE name = 'lookup'`,
		"a thread that is linked": `DELETE FROM threads WHERE kind = 'subagent'`,
	} {
		t.Run(name, func(t *testing.T) {
			s, plant := damagedStore(t)
			plant(damage)
			repairAll(t, s)
			report, err := verify.Check(t.Context(), s, verify.Options{})
			if err != nil || report.OK {
				t.Errorf("%v, %v", report, err)
			}
		})
	}
}

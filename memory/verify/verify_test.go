package verify_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // raw access to the store's file

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sqlite"
	"github.com/spool-agents/spool/memory/verify"
)

// scene is a store with a finished conversation: a tool, a sub-agent, two turns.
type scene struct {
	t     *testing.T
	s     memory.ConversationMemoryStore
	raw   *sql.DB
	bind  func(query string) string
	fence int

	main, child    string
	turn, second   string
	childTurn      string
	lookup, assign string
}

// backend is a store whose rows can be changed behind its back.
type backend struct {
	name string
	// open makes an empty store and opens its database, which knows SQLite's
	// functions for JSON.
	open func(t *testing.T) (memory.ConversationMemoryStore, *sql.DB)
	// bind turns placeholders into the database's.
	bind func(query string) string
}

// backends are all that this build of the tests can reach; SQLite is the first.
var backends = []backend{{"sqlite", openSQLite, func(query string) string { return query }}}

func openSQLite(t *testing.T) (memory.ConversationMemoryStore, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spool.db")
	s := memorytest.Must(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	raw := memorytest.Must(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(0)"))(t)
	return s, raw
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneOn(t, backends[0])
}

func newSceneOn(t *testing.T, b backend) *scene {
	t.Helper()
	s, raw := b.open(t)
	t.Cleanup(func() { _ = s.Close(); _ = raw.Close() })
	c := &scene{t: t, s: s, raw: raw, bind: b.bind}
	c.play()
	return c
}

func (c *scene) send(id string) memory.SendResult {
	c.t.Helper()
	return memorytest.Must(c.s.Send(c.t.Context(), memory.SendRequest{
		UserID: "alice", Profile: "default", SessionID: "s1", ConversationID: "default",
		MessageID: id, Content: agent.Text("text of " + id), WhenBusy: memory.Queue,
	}))(c.t)
}

func (c *scene) take(thread string) string {
	c.t.Helper()
	return memorytest.Must(c.s.TakeNext(c.t.Context(), memory.TakeRequest{ThreadID: thread, RunID: "r"}))(c.t).Turn.ID
}

func (c *scene) reply(thread, turn string, step int, calls ...agent.Call) []agent.ToolCall {
	c.t.Helper()
	c.fence++
	ctx := c.t.Context()
	st := memorytest.Must(c.s.BeginModel(ctx, memory.ModelBegin{
		ThreadID: thread, TurnID: turn, Step: step, Fence: memory.Fence{Scope: fmt.Sprint(c.fence), Number: 1},
	}))(c.t)
	r := memory.ReplyRecord{ThreadID: thread, TurnID: turn, Step: step, Attempt: st.Attempt}
	r.Reply = agent.ModelReply{Content: "reply", Calls: calls, FinishReason: "stop"}
	for _, call := range calls {
		r.Gates = append(r.Gates, agent.GateAuto)
		r.Delegations = append(r.Delegations, call.Function.Name == "assign_task")
	}
	return memorytest.Must(c.s.SaveReply(ctx, r))(c.t).Calls
}

func (c *scene) complete(thread, turn string, step int) memory.Closed {
	c.t.Helper()
	c.reply(thread, turn, step)
	return memorytest.Must(c.s.CloseTurn(c.t.Context(), memory.CloseRequest{
		ThreadID: thread, TurnID: turn, Outcome: agent.ThreadCompleted, Step: step,
	}))(c.t)
}

func (c *scene) play() {
	c.t.Helper()
	ctx := c.t.Context()
	c.main = c.send("m1").ThreadID
	c.turn = c.take(c.main)
	calls := c.reply(c.main, c.turn, 1, agent.NewCall("a", "lookup", `{}`), agent.NewCall("b", "assign_task", `{}`))
	c.lookup, c.assign = calls[0].ID, calls[1].ID
	st := memorytest.Must(c.s.BeginTool(ctx, memory.ToolBegin{
		ThreadID: c.main, TurnID: c.turn, CallID: c.lookup, Fence: memory.Fence{Scope: "tool", Number: 1},
	}))(c.t)
	require.NoError(c.t, c.s.SaveResult(ctx, memory.ToolOutcome{
		ThreadID: c.main, TurnID: c.turn, CallID: c.lookup, Attempt: st.Attempt, Result: agent.ToolOK("found"),
	}))
	d := memorytest.Must(c.s.OpenDelegation(ctx, memory.DelegationRequest{
		ThreadID: c.main, TurnID: c.turn, CallID: c.assign, Task: "find out",
		Config: agent.SpecialistAgentConfig{Name: "researcher"}, Limits: memory.DelegationLimits{MaxDepth: 3},
	}))(c.t)
	c.child, c.childTurn = d.ChildThread, c.take(d.ChildThread)
	c.complete(c.child, c.childTurn, 1)
	memorytest.Must(c.s.TakeChildResult(ctx, memory.ChildResultRequest{ThreadID: c.main, TurnID: c.turn, CallID: c.assign}))(c.t)
	round := memory.RoundRequest{ThreadID: c.main, TurnID: c.turn, Step: 1}
	memorytest.Must(c.s.SaveToolRound(ctx, round))(c.t)
	c.second = c.send("m2").TurnID
	c.complete(c.main, c.turn, 2)
	c.complete(c.main, c.second, 1)
}

// plant changes rows behind the store's back; @main, @turn, … are the ids of the scene.
func (c *scene) plant(query string, args ...any) {
	c.t.Helper()
	query = named.ReplaceAllStringFunc(query, func(name string) string {
		args = append(args, map[string]string{"@main": c.main, "@child": c.child, "@turn": c.turn, "@second": c.second, "@childTurn": c.childTurn, "@lookup": c.lookup, "@assign": c.assign}[name])
		return "?"
	})
	res, err := c.raw.ExecContext(c.t.Context(), c.bind(query), args...)
	if err != nil {
		c.t.Fatal(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		c.t.Fatalf("%s changed %d rows (%v)", query, n, err)
	}
}

func (c *scene) check(o verify.Options) verify.Report {
	c.t.Helper()
	return memorytest.Must(verify.Check(c.t.Context(), c.s, o))(c.t)
}

func rules(r verify.Report) []int {
	var out []int
	for _, v := range r.Violations {
		out = append(out, v.Rule)
	}
	return out
}

func TestCleanStorePasses(t *testing.T) {
	c := newScene(t)
	for _, o := range []verify.Options{{}, {Threads: []string{c.main}}, {Threads: []string{c.child}}, {Temporal: runs(false), Grace: time.Millisecond}} {
		if r := c.check(o); !r.OK || len(r.Violations) != 0 {
			t.Errorf("%+v: %v", o, r.Violations)
		}
	}
	memorytest.Fails(verify.Check(t.Context(), c.s, verify.Options{Threads: []string{"none/default"}}))(t, agent.CodeNotFound)
}

func TestReportJSON(t *testing.T) {
	c := newScene(t)
	b, err := json.Marshal(c.check(verify.Options{}))
	if err != nil || string(b) != `{"ok":true,"checked":2,"violations":[]}` {
		t.Errorf("%s (%v)", b, err)
	}
	b, err = json.Marshal(verify.Violation{Rule: 3, ThreadID: "s/c", Detail: "d"})
	if err != nil || string(b) != `{"rule":3,"threadId":"s/c","detail":"d"}` {
		t.Errorf("%s (%v)", b, err)
	}
}

// plantQuestion asks by the call lookup; the rest of the row follows.
const plantQuestion = `INSERT INTO asks SELECT 'ques_x', 'question', t.thread_id, t.thread_id, 'alice', t.id, 1, @lookup, 'orchestrator', '', '', 'a text', `

const copyEvent = `INSERT INTO events (thread_id, seq, type, turn_id, data, at)
	SELECT thread_id, (SELECT MAX(seq) + 1 FROM events o WHERE o.thread_id = e.thread_id), type, turn_id, data, at FROM events e `

var named = regexp.MustCompile(`@\w+`)

// TestPlantedViolationsAreCaught breaks each rule by hand, in one way or more.
func TestPlantedViolationsAreCaught(t *testing.T) {
	for _, p := range []struct {
		rule int
		name string
		sql  []string
	}{
		{1, "a link event names no thread", []string{`UPDATE events SET data = replace(data, @child, 'agent:researcher:ghost') WHERE type = 'tool_response' AND thread_id = @main`}},
		{1, "a thread is younger than the event that links it", []string{`UPDATE threads SET created_at = created_at + 60000 WHERE id = @child`}},
		{1, "a sub-thread was moved to another parent", []string{`UPDATE threads SET parent_id = 'none/default' WHERE id = @child`}},
		{2, "a sub-thread has another's agent id", []string{`UPDATE threads SET agent_id = 'researcher-1-ffffffffffff' WHERE id = @child`}},
		{2, "no event created the sub-thread", []string{`UPDATE events SET data = json_remove(data, '$.sub_agent_thread_id') WHERE type = 'tool_call' AND data LIKE '%' || @child || '%'`}},
		{2, "two events created the sub-thread", []string{copyEvent + `WHERE type = 'tool_call' AND data LIKE '%' || @child || '%'`}},
		{2, "a turn of the sub-thread has no task", []string{`DELETE FROM tasks WHERE sub_agent = @child`}},
		{2, "the parent is gone", []string{`UPDATE threads SET parent_id = 'none/default' WHERE id = @child`}},
		{3, "a call has no result", []string{`UPDATE messages SET body = json_set(body, '$.tool_call_id', 'call_other') WHERE thread_id = @main AND json_extract(body, '$.tool_call_id') = @lookup`}},
		{3, "a result stands away from its call", []string{`UPDATE messages SET body = json_set(body, '$.tool_calls', json('[]')) WHERE thread_id = @main AND json_array_length(body, '$.tool_calls') > 0`}},
		{3, "a call has two results", []string{`UPDATE messages SET body = json_set(body, '$.tool_call_id', @lookup) WHERE thread_id = @main AND json_extract(body, '$.tool_call_id') = @assign`}},
		{4, "events have a gap", []string{`DELETE FROM events WHERE thread_id = @main AND seq = 3`}},
		{4, "messages have a gap", []string{`DELETE FROM messages WHERE thread_id = @child AND seq = 2`, `UPDATE messages SET seq = seq + 1, body = json_set(body, '$.seq', seq + 1) WHERE thread_id = @child`}},
		{4, "a message id is there twice", []string{`UPDATE messages SET body = json_set(body, '$.id', (SELECT id FROM messages WHERE thread_id = @main AND seq = 5)) WHERE thread_id = @main AND seq = 7`}},
		{5, "a question of a closed turn waits", []string{plantQuestion + `'', '', '', '', '', '', 0, t.opened_at FROM turns t WHERE t.id = @turn`}},
		{5, "an answer is not the result of its call", []string{plantQuestion + `'answered', '', '', 'another', '', 'alice', 1, t.opened_at FROM turns t WHERE t.id = @turn`}},
		{5, "two turns are open", []string{`UPDATE turns SET state = 'open' WHERE thread_id = @main`}},
		{5, "the open turn is not the thread's", []string{`UPDATE turns SET state = 'open' WHERE id = @second`}},
		{5, "the thread's open turn is closed", []string{`UPDATE threads SET open_turn = @second WHERE id = @main`}},
		{5, "a closed turn has no end", []string{`UPDATE events SET type = 'context_summary' WHERE turn_id = @turn AND type = 'done'`}},
		{5, "a closed turn has two ends", []string{copyEvent + `WHERE type = 'done' AND turn_id = @turn`}},
		{5, "an idle thread is running", []string{`UPDATE threads SET status = 'running' WHERE id = @main`}},
		{6, "a task is from somebody else", []string{`UPDATE messages SET body = json_set(body, '$.source', 'user') WHERE thread_id = @child AND seq = 1`}},
		{6, "a message taken stands nowhere", []string{`UPDATE messages SET body = json_set(body, '$.role', 'system') WHERE thread_id = @main AND seq = 1`}},
		{6, "a message stands twice", []string{`INSERT INTO messages (thread_id, seq, id, superseded_by, body)
				SELECT thread_id, n, 'copy', '', json_set(body, '$.seq', n, '$.id', 'copy') FROM messages,
				(SELECT MAX(seq) + 1 AS n FROM messages WHERE thread_id = @main) AS last WHERE thread_id = @main AND seq = 1`}},
		{6, "a waiting message stands in the thread already", []string{`UPDATE inbox SET state = 'waiting' WHERE thread_id = @main AND id = 'm2'`}},
		{7, "an end stands in two entries", []string{`INSERT INTO inbox SELECT thread_id, seq + 100, kind, 'copy', state, when_busy, turn_id, taken_by, content, agent, model, message_id,
				retry_no, config_hash, child_thread, child_turn, call_id, task_id, background, delegator_thread, delegator_turn, created_at, quiet, answer_schema
				FROM inbox WHERE kind = 'child' AND child_turn = @childTurn`}},
		{7, "an end stands nowhere", []string{`DELETE FROM inbox WHERE kind = 'child'`, `UPDATE tool_calls SET status = 'running' WHERE id = @assign`}},
		{7, "the end of a background child stands nowhere", []string{`DELETE FROM inbox WHERE kind = 'child'`, `UPDATE turns SET background = 1 WHERE id = @childTurn`}},
		{7, "an open turn has an end", []string{`UPDATE turns SET state = 'open' WHERE id = @childTurn`}},
		{8, "a tool was run again after its result", []string{copyEvent + `WHERE type = 'tool_response' AND data LIKE '%' || @lookup || '%'`}},
		{8, "a call with a logged result is running again", []string{`UPDATE tool_calls SET status = 'running', attempts = 2 WHERE id = @lookup`}},
		{8, "a result belongs to no call", []string{`DELETE FROM tool_calls WHERE id = @lookup`}},
		{12, "two messages changed places", []string{`UPDATE messages SET seq = 99 WHERE thread_id = @main AND seq = 3`, `UPDATE messages SET seq = 3 WHERE thread_id = @main AND seq = 4`, `UPDATE messages SET seq = 4 WHERE thread_id = @main AND seq = 99`}},
		{12, "nothing tells that a sub-agent began", []string{`UPDATE events SET type = 'context_summary' WHERE type = 'sub_agent_started'`}},
		{12, "the start of a sub-agent names none", []string{`UPDATE events SET data = json_remove(data, '$.sub_agent_thread_id') WHERE type = 'sub_agent_started'`}},
		{12, "nothing tells that a sub-agent ended", []string{`UPDATE events SET type = 'context_summary' WHERE type = 'sub_agent_completed'`}},
		{12, "the end of a sub-agent is told twice", []string{copyEvent + `WHERE type = 'sub_agent_completed'`}},
		{10, "a list shows a sub-agent", []string{`UPDATE threads SET kind = 'main' WHERE id = @child`}},
	} {
		t.Run(fmt.Sprintf("rule %d: %s", p.rule, p.name), func(t *testing.T) {
			for _, b := range backends {
				t.Run(b.name, func(t *testing.T) {
					c := newSceneOn(t, b)
					for _, query := range p.sql {
						c.plant(query)
					}
					r := c.check(verify.Options{})
					if r.OK || !slices.Contains(rules(r), p.rule) {
						t.Errorf("found %v, want rule %d", r.Violations, p.rule)
					}
					for _, v := range r.Violations {
						if v.ThreadID == "" || v.Detail == "" || !strings.Contains(v.String(), v.Detail) {
							t.Errorf("a violation says too little: %+v", v)
						}
					}
				})
			}
		})
	}
}

// runs is a Temporal in which all workflows are open, or none.
type runs bool

func (r runs) IsOpen(context.Context, string) (bool, error) { return bool(r), nil }

// changing is a Temporal that does something when it is asked.
type changing struct {
	asked  atomic.Int32
	action func()
	err    error
}

func (c *changing) IsOpen(context.Context, string) (bool, error) {
	if c.asked.Add(1) == 1 && c.action != nil {
		c.action()
	}
	return false, c.err
}

func TestOpenTurnWithoutOpenRun(t *testing.T) {
	c := newScene(t)
	c.send("m3")
	turn := c.take(c.main)
	if r := c.check(verify.Options{}); !r.OK {
		t.Errorf("without Temporal: %v", r.Violations)
	}
	if r := c.check(verify.Options{Temporal: runs(true)}); !r.OK {
		t.Errorf("with an open run: %v", r.Violations)
	}
	r := c.check(verify.Options{Temporal: runs(false), Grace: time.Millisecond})
	if !slices.Equal(rules(r), []int{verify.RuleOpenRun}) || r.Violations[0].ThreadID != c.main {
		t.Errorf("without an open run: %v", r.Violations)
	}
	down := errors.New("temporal is away")
	if _, err := verify.Check(t.Context(), c.s, verify.Options{Temporal: &changing{err: down}}); !errors.Is(err, down) {
		t.Errorf("an error of Temporal: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := verify.Check(ctx, c.s, verify.Options{Temporal: &changing{action: cancel}, Grace: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while it waits: %v", err)
	}
	// A turn that closes while the check waits is no violation.
	ends := &changing{action: func() { c.complete(c.main, turn, 1) }}
	if r := c.check(verify.Options{Temporal: ends, Grace: time.Millisecond}); !r.OK {
		t.Errorf("a turn that closed meanwhile: %v", r.Violations)
	}
}

// moving changes the store while it is read, once.
type moving struct {
	verify.Store
	first atomic.Bool
	heal  func()
}

func (m *moving) Changed(ctx context.Context) (int64, error) {
	n, err := m.Store.Changed(ctx)
	if m.first.CompareAndSwap(false, true) {
		return n, err
	}
	if m.heal != nil {
		m.heal()
		m.heal = nil
		return m.Store.Changed(ctx)
	}
	return n, err
}

func TestCheckStartsOverWhenSomebodyWrites(t *testing.T) {
	c := newScene(t)
	c.plant(`UPDATE threads SET status = 'running' WHERE id = ?`, c.main)
	r := &moving{Store: c.s, heal: func() {
		c.plant(`UPDATE threads SET status = 'completed' WHERE id = ?`, c.main)
	}}
	rep, err := verify.Check(t.Context(), r, verify.Options{})
	if err != nil || !rep.OK {
		t.Errorf("%v (%v)", rep.Violations, err)
	}
}

// leaving deletes a conversation after it was listed.
type leaving struct {
	verify.Store
	leave func()
}

func (l *leaving) Threads(ctx context.Context, f memory.ThreadFilter) ([]agent.Thread, error) {
	list, err := l.Store.Threads(ctx, f)
	if l.leave != nil {
		l.leave()
		l.leave = nil
	}
	return list, err
}

func TestASessionThatIsDeletedMeanwhileIsLeftOut(t *testing.T) {
	c := newScene(t)
	memorytest.Must(c.s.Send(t.Context(), memory.SendRequest{
		UserID: "alice", Profile: "default", SessionID: "s2", ConversationID: "default", MessageID: "m", Content: agent.Text("x"), WhenBusy: memory.Queue,
	}))(c.t)
	r := &leaving{Store: c.s, leave: func() {
		memorytest.Must(c.s.DeleteTree(t.Context(), memory.DeleteRequest{ThreadID: c.main}))(c.t)
	}}
	rep, err := verify.Check(t.Context(), r, verify.Options{})
	if err != nil || !rep.OK || rep.Checked != 1 {
		t.Errorf("%+v (%v)", rep, err)
	}
}

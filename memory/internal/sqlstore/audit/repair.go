// Package audit looks for damage in what is stored, and repairs some of it.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Store looks for damage in what is stored, and repairs some of it.
type Store struct{ rows *rows.Store }

// New puts this floor on the rows of a store.
func New(s *rows.Store) *Store { return &Store{rows: s} }

// repairs is a repair of one thread under way, with its rows. Everything is
// loaded once: looking things up in the database row by row is slow on long threads.
type repairs struct {
	*rows.Unit
	t     *rows.Thread
	found []memory.Finding

	messageList []*storedMessage
	eventList   []*rows.Event
	turnList    []*rows.Turn
	callList    []*rows.Call

	// incomplete means that rows are lost or cannot be read: then no number is
	// counted anew.
	incomplete bool
}

func (r *repairs) did(format string, args ...any) {
	r.found = append(r.found, memory.Finding{Kind: memory.FoundWrong, Detail: fmt.Sprintf(format, args...), Mendable: true})
}

func (r *repairs) left(kind memory.FindingKind, format string, args ...any) {
	r.found = append(r.found, memory.Finding{Kind: kind, Detail: fmt.Sprintf(format, args...)})
	r.incomplete = r.incomplete || kind != memory.FoundWrong
}

// Repair counts a thread's numbers anew and puts missing results back.
func (s *Store) Repair(ctx context.Context, threadID string) (done []string, err error) {
	err = s.rows.Write(ctx, "repair", func(u *rows.Unit) {
		done = nil
		for _, f := range repair(u, threadID) {
			if f.Mendable {
				done = append(done, f.Detail)
			}
		}
	})
	return done, err
}

// Audit is a repair that is not committed.
func (s *Store) Audit(ctx context.Context, threadID string) (found []memory.Finding, err error) {
	err = s.rows.Look(ctx, func(u *rows.Unit) { found = repair(u, threadID) })
	return found, err
}

func repair(u *rows.Unit, threadID string) []memory.Finding {
	r := &repairs{Unit: u, t: u.Thread(threadID)}
	r.load()
	r.results()
	r.lost()
	r.counters()
	return r.found
}

// results puts missing results (FAULTS B3) back where they stood: behind the
// message with the calls, in their order.
func (r *repairs) results() {
	if r.incomplete {
		return
	}
	taken := map[int64]bool{}
	for _, m := range r.messageList {
		taken[m.Seq] = true
	}
	calls := map[string]*rows.Call{}
	for _, c := range r.callList {
		calls[c.ID] = c
	}
	for _, m := range r.messageList {
		for i, call := range m.m.ToolCalls {
			seq := m.Seq + 1 + int64(i)
			if taken[seq] {
				continue // another message in its place is told by rule 3
			}
			result := agent.Message{
				ID: agent.ToolMessageID(call.ID), Role: agent.RoleTool, ToolCallID: call.ID, Name: call.Function.Name, TurnID: m.m.TurnID, Seq: seq,
				Content: agent.Text(agent.TextUnknown), Status: agent.CallUnknown, ErrorReason: agent.ErrUnknown, Timestamp: m.m.Timestamp,
			}
			if c := calls[call.ID]; c != nil && c.Status.Final() {
				result.Content, result.Status, result.ErrorReason = agent.Text(c.Result), c.Status, c.ErrorReason
			}
			body := rows.Must(rows.Encode(result))
			r.Exec(rows.InsertMessage, r.t.ID, seq, result.ID, body)
			r.messageList = append(r.messageList, &storedMessage{Message: rows.Message{Seq: seq, ID: result.ID, Body: body}, m: result})
			r.did("call %s has its result in the conversation again", call.ID)
		}
	}
	slices.SortFunc(r.messageList, func(a, b *storedMessage) int { return int(a.Seq - b.Seq) })
}

// counters makes the numbers in the thread row those of its rows.
func (r *repairs) counters() {
	if r.incomplete {
		return
	}
	t := r.t
	for _, c := range []struct {
		name  string
		have  *int64
		query string
		least bool // rows may have moved to other threads
	}{
		{"last event", &t.LastEvent, `SELECT COALESCE(MAX(seq), 0) FROM events WHERE thread_id = ?`, true},
		{"last message", &t.LastMessage, `SELECT COALESCE(MAX(seq), 0) FROM messages WHERE thread_id = ?`, false},
		{"messageCount", &t.MessageCount, `SELECT COUNT(*) FROM messages WHERE thread_id = ?`, false},
		{"last inbox entry", &t.LastEntry, `SELECT COALESCE(MAX(seq), 0) FROM inbox WHERE thread_id = ?`, true},
		{"last turn", &t.LastTurn, `SELECT COALESCE(MAX(n), 0) FROM turns WHERE thread_id = ?`, false},
		{"last child", &t.LastChild, `SELECT COALESCE(MAX(ordinal), 0) FROM threads WHERE parent_id = ? AND parent_id <> ''`, true},
		{"waiting", &t.Waiting, `SELECT COUNT(*) FROM inbox WHERE state = 'waiting' AND quiet = 0 AND thread_id = ?`, false},
		{"toolCallCount", &t.ToolCallCount, `SELECT COUNT(*) FROM tool_calls WHERE thread_id = ?`, false},
		{"promptTokens", &t.PromptTokens, `SELECT COALESCE(SUM(prompt_tokens), 0) FROM turns WHERE thread_id = ?`, false},
		{"completionTokens", &t.CompletionTokens, `SELECT COALESCE(SUM(completion_tokens), 0) FROM turns WHERE thread_id = ?`, false},
		{"totalTokens", &t.TotalTokens, `SELECT COALESCE(SUM(total_tokens), 0) FROM turns WHERE thread_id = ?`, false},
		{"requestCount", &t.RequestCount, `SELECT COALESCE(SUM(requests), 0) FROM turns WHERE thread_id = ?`, false},
		{"totalTimeMs", &t.TotalTimeMs, `SELECT COALESCE(SUM(closed_at - opened_at), 0) FROM turns WHERE state = 'closed' AND thread_id = ?`, false},
	} {
		var want int64
		rows.Check(r.Row(c.query, t.ID).Scan(&want))
		if *c.have != want && (!c.least || *c.have < want) {
			r.did("%s is %d, as its rows say, not %d", c.name, want, *c.have)
			*c.have, t.Dirty = want, true
		}
	}
	var price float64
	rows.Check(r.Row(`SELECT COALESCE(SUM(price), 0) FROM turns WHERE thread_id = ?`, t.ID).Scan(&price))
	// Sums of the same prices in another order differ by their last digits.
	if math.Abs(price-t.TotalPrice) > 1e-9*max(1, math.Abs(price)) {
		r.did("totalPrice is %g, as its rows say, not %g", price, t.TotalPrice)
		t.TotalPrice, t.Dirty = price, true
	}
}

// structured are the columns that hold JSON, with what names the row.
var structured = []struct{ what, query string }{
	{"inbox entry %s", `SELECT CAST(seq AS TEXT), content FROM inbox WHERE thread_id = ? ORDER BY inbox.seq`},
	{"event %s", `SELECT CAST(seq AS TEXT) || ' (' || type || ')', data FROM events WHERE thread_id = ? ORDER BY events.seq`},
	{"turn %s", `SELECT id, closed FROM turns WHERE thread_id = ? ORDER BY n`},
	{"reply %s", `SELECT turn_id || '.' || CAST(step AS TEXT), reply FROM steps WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ?) ORDER BY turn_id, step`},
	{"round %s", `SELECT turn_id || '.' || CAST(step AS TEXT), round FROM steps WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ?) ORDER BY turn_id, step`},
	{"the arguments of call %s", `SELECT id, args FROM tool_calls WHERE thread_id = ? ORDER BY id`},
	{"the usage of summary %s", `SELECT turn_id || '.' || CAST(step AS TEXT), used FROM summaries WHERE thread_id = ? ORDER BY turn_id, step`},
}

// missing are queries for rows that others of a thread tell of and that are not there.
// Turns that were imported from messages had no inbox entry and no steps.
var missing = []struct{ what, query string }{
	{"its session %s", `SELECT session_id || ' of ' || user_id FROM threads WHERE id = ?` +
		` AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = threads.session_id AND s.user_id = threads.user_id)`},
	{"the configuration %s", `SELECT config_hash FROM threads WHERE id = ? AND config_hash <> '' AND NOT EXISTS (SELECT 1 FROM configs c WHERE c.hash = threads.config_hash)`},
	{"the configuration %s of an inbox entry", `SELECT config_hash FROM inbox WHERE thread_id = ? AND config_hash <> ''` +
		` AND NOT EXISTS (SELECT 1 FROM configs c WHERE c.hash = inbox.config_hash)`},
	{"turn %s, which the log tells of", `SELECT DISTINCT turn_id FROM events WHERE thread_id = ? AND type IN ('message_started', 'memory_appended', 'done', 'error')` +
		` AND turn_id <> '' AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = events.turn_id)`},
	{"the turn of call %s", `SELECT id FROM tool_calls WHERE thread_id = ? AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = tool_calls.turn_id)`},
	{"the task of call %s", `SELECT id FROM tool_calls WHERE thread_id = ? AND task_id <> '' AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.id = tool_calls.task_id)`},
	{"the inbox entry that opened turn %s", `SELECT turn_id FROM steps WHERE step = 1 AND turn_id IN (SELECT id FROM turns WHERE thread_id = ?)` +
		` AND turn_id NOT IN (SELECT turn_id FROM inbox WHERE thread_id = ?)`},
	{"step records of turn %s", `SELECT id FROM turns WHERE thread_id = ? AND saved > (SELECT COUNT(*) FROM steps WHERE steps.turn_id = turns.id AND step <= saved)` +
		` AND id IN (SELECT turn_id FROM inbox WHERE thread_id = ?)`},
}

// wrong are queries for rows that contradict others, where no rule of package verify
// looks: what a sub-agent has from its parent, and what only open turns have.
var wrong = []struct{ what, query string }{
	{"its user, session, root or depth is not as its parent's, %s", `SELECT p.id FROM threads t JOIN threads p ON p.id = t.parent_id WHERE t.id = ?` +
		` AND (t.user_id <> p.user_id OR t.profile <> p.profile OR t.session_id <> p.session_id OR t.conversation_id <> p.conversation_id OR t.root_id <> p.root_id OR t.depth <> p.depth + 1)`},
	{"call %s made it, which is not its parent's", `SELECT t.parent_call_id FROM threads t JOIN inbox i ON i.thread_id = t.id JOIN tool_calls c ON c.id = i.id` +
		` WHERE t.id = ? AND t.parent_call_id <> c.id AND NOT EXISTS (SELECT 1 FROM tool_calls m WHERE m.id = t.parent_call_id AND m.child_thread = t.id) AND i.seq = (SELECT MIN(seq) FROM inbox WHERE thread_id = ? AND kind = 'assign')`},
	{"it works on task %s, which is not the one ordered last", `SELECT t.task_id FROM threads t JOIN inbox i ON i.thread_id = t.id JOIN tool_calls c ON c.id = i.id` +
		` WHERE t.id = ? AND t.task_id <> c.task_id AND i.seq = (SELECT MAX(seq) FROM inbox WHERE thread_id = ? AND kind = 'assign')`},
	{"call %s and its task name another sub-agent than its turn's", `SELECT c.id FROM tool_calls c JOIN turns n ON n.id = c.child_turn JOIN tasks k ON k.id = c.task_id` +
		` WHERE c.thread_id = ? AND c.child_turn <> '' AND (c.child_thread <> n.thread_id OR k.sub_agent <> n.thread_id)`},
	{"the turn of the open approval or question %s is closed", `SELECT id FROM asks WHERE thread_id = ? AND outcome = '' AND NOT EXISTS (SELECT 1 FROM turns WHERE id = asks.turn_id AND state = 'open')`},
	{"turn %s is closed and holds a reservation", `SELECT DISTINCT turn_id FROM reservations WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ? AND state = 'closed')`},
	{"call %s has no end, and its turn has", `SELECT c.id FROM tool_calls c JOIN turns n ON n.id = c.turn_id WHERE c.thread_id = ? AND n.state = 'closed'` +
		` AND c.status NOT IN ('success', 'failed', 'unknown', 'aborted', 'denied')`},
	{"task %s has no end, and its call or turn has", `SELECT k.id FROM tasks k WHERE k.status IN ('pending', 'running') AND k.id IN (SELECT c.task_id FROM tool_calls c` +
		` WHERE c.thread_id = ? AND c.delegation = 0 AND c.status IN ('success', 'failed', 'unknown', 'aborted', 'denied')` +
		` UNION SELECT n.task_id FROM turns n WHERE n.thread_id = ? AND n.state = 'closed')`},
}

// storedMessage is a message as it stands, and what is wrong with it.
type storedMessage struct {
	rows.Message
	m   agent.Message
	bad string
}

// read parses the message and says what is wrong with it.
func (m *storedMessage) read() {
	var fields map[string]json.RawMessage
	err := json.Unmarshal([]byte(m.Body), &fields)
	if err == nil {
		err = json.Unmarshal([]byte(m.Body), &m.m)
	}
	switch {
	case err != nil:
		m.bad = "cannot be read: " + err.Error()
	case fields["content"] == nil:
		m.bad = "has no content"
	case !slices.Contains([]agent.Role{agent.RoleSystem, agent.RoleUser, agent.RoleAssistant, agent.RoleTool}, m.m.Role):
		m.bad = "has no known role"
	}
}

// load reads the thread's rows and names those that cannot be read.
func (r *repairs) load() {
	id := r.t.ID
	for _, s := range structured {
		type pair struct{ key, body string }
		for _, p := range rows.Find(r, func(p *pair) []any { return []any{&p.key, &p.body} }, nil, s.query, id) {
			if p.body != "" && !json.Valid([]byte(p.body)) {
				r.left(memory.FoundDamaged, s.what+" cannot be read", p.key)
			}
		}
	}
	r.messageList = rows.Find(r, func(m *storedMessage) []any { return []any{&m.Seq, &m.ID, &m.SupersededBy, &m.Body} },
		(*storedMessage).read, `SELECT seq, id, superseded_by, body FROM messages WHERE thread_id = ? ORDER BY seq`, id)
	r.eventList, r.turnList, r.callList = r.Written(id)
}

// lost names rows that others tell of and that are not there, and messages that
// other rows contradict. None of it is made again.
func (r *repairs) lost() {
	for _, w := range wrong {
		r.each(w.query, func(id string) { r.left(memory.FoundWrong, w.what, id) })
	}
	for _, l := range missing {
		r.each(l.query, func(id string) { r.left(memory.FoundLost, "lost: "+l.what, id) })
	}
	entries := r.Strings(`SELECT CAST(seq AS TEXT) FROM inbox WHERE thread_id = ? ORDER BY inbox.seq`, r.t.ID)
	if r.t.Kind == agent.KindMain { // entries of sub-agents move
		r.gaps("inbox entry", numbersOf(entries, func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }), r.t.LastEntry)
	}
	last := r.t.LastMessage
	if last != r.t.MessageCount { // one of the two was changed: the rows decide
		last = 0
	}
	r.gaps("message", numbersOf(r.messageList, func(m *storedMessage) int64 { return m.Seq }), last)
	r.gaps("event", numbersOf(r.eventList, func(e *rows.Event) int64 { return e.Seq }), r.t.LastEvent)
	r.gaps("turn", numbersOf(r.turnList, func(t *rows.Turn) int64 { return t.N }), 0)
	r.messagesAgree()
	r.lostImages()
}

// messagesAgree names messages that cannot be read, or that other rows contradict.
func (r *repairs) messagesAgree() {
	calls, answers, turns := map[string]bool{}, map[int64]*rows.Turn{}, map[string]bool{"": true}
	for _, c := range r.callList {
		calls[c.ID] = true
	}
	for _, t := range r.turnList {
		turns[t.ID] = true
		if t.State == memory.TurnClosed {
			answers[t.AnswerSeq] = t
		}
	}
	for _, m := range r.messageList {
		t := answers[m.Seq]
		switch {
		case m.bad != "":
			r.left(memory.FoundDamaged, "message %d %s", m.Seq, m.bad)
		case m.m.Seq != m.Seq || m.m.ID != m.ID:
			r.left(memory.FoundWrong, "message %d (%s) says that it is message %d (%s)", m.Seq, m.ID, m.m.Seq, m.m.ID)
		case t != nil && m.m.Content.String() != rows.Clean(t.Answer):
			r.left(memory.FoundWrong, "message %d is not the answer that turn %s tells of", m.Seq, t.ID)
		case !turns[m.SupersededBy]:
			r.left(memory.FoundWrong, "message %d is superseded by turn %s, which does not exist", m.Seq, m.SupersededBy)
		}
		for _, c := range m.m.ToolCalls {
			if !calls[c.ID] {
				r.left(memory.FoundLost, "lost: call %s (%s), which message %d makes", c.ID, c.Function.Name, m.Seq)
			}
		}
	}
}

// each runs a query, which has the thread's id for each placeholder.
func (r *repairs) each(query string, f func(id string)) {
	for _, id := range r.Strings(query, slices.Repeat([]any{r.t.ID}, strings.Count(query, "?"))...) {
		f(id)
	}
}

func numbersOf[T any](list []T, number func(T) int64) []int64 {
	out := make([]int64, len(list))
	for i, v := range list {
		out[i] = number(v)
	}
	return out
}

// gaps names what is missing of something numbered from 1 to last.
func (r *repairs) gaps(what string, have []int64, last int64) {
	want := int64(1)
	for _, n := range append(have, last+1) {
		if n > want {
			text := fmt.Sprintf("%s %d", what, want)
			if n-1 > want {
				text += fmt.Sprintf(" to %d", n-1)
			}
			r.left(memory.FoundLost, "lost: %s", text)
		}
		want = max(want, n+1)
	}
}

// lostImages reports messages whose image is gone.
func (r *repairs) lostImages() {
	gone := r.Strings(`SELECT name FROM image_refs WHERE thread_id = ? AND NOT EXISTS (SELECT 1 FROM images i WHERE i.name = image_refs.name) ORDER BY name`, r.t.ID)
	if len(gone) == 0 {
		return
	}
	var messages []agent.Message
	if rows.Caught(func() { messages = r.Messages(r.t.ID) }) != nil {
		return // readable has told of it
	}
	for _, name := range gone {
		for _, m := range messages {
			for _, shown := range m.Content.Images() {
				if shown == name {
					r.left(memory.FoundLost, "message %s (seq %d) shows %s%s, which the store does not have", m.ID, m.Seq, agent.ImageScheme, name)
				}
			}
		}
	}
}

package audit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rules"
)

// repairs is a repair of one thread under way, with its rows. Everything is
// loaded once: looking things up in the database row by row is slow on long threads.
type repairs struct {
	*unit
	t     *rows.Thread
	found []memory.Finding

	messageList []*storedMessage
	eventList   []*rows.Event
	turnList    []*rows.Turn
	callList    []*rows.Call
	responses   map[string]rows.ToolResponseEvent // results that the log tells, by call
	ends        map[string]*rows.Event            // done or error event, by turn

	// incomplete means that rows are lost or cannot be read: then no number is
	// counted anew and no state is guessed.
	incomplete bool
}

// did notes what was mended.
func (r *repairs) did(format string, args ...any) {
	r.found = append(r.found, memory.Finding{Kind: memory.FoundWrong, Detail: fmt.Sprintf(format, args...), Mendable: true})
}

// left notes what cannot be mended.
func (r *repairs) left(kind memory.FindingKind, format string, args ...any) {
	r.found = append(r.found, memory.Finding{Kind: kind, Detail: fmt.Sprintf(format, args...)})
	r.incomplete = r.incomplete || kind != memory.FoundWrong
}

// Repair mends what follows from a thread's other rows. Parents are to be
// repaired before their children, whose repair reads them.
func (s *Store) Repair(ctx context.Context, threadID string) (done []string, err error) {
	err = s.write(ctx, "repair", func(u *unit) error {
		r, err := u.repair(threadID)
		if err != nil {
			return err
		}
		done = nil
		for _, f := range r.found {
			if f.Mendable {
				done = append(done, f.Detail)
			}
		}
		return nil
	})
	return done, err
}

// Audit is a repair that is not committed.
func (s *Store) Audit(ctx context.Context, threadID string) (found []memory.Finding, err error) {
	err = s.look(ctx, func(u *unit) error {
		r, err := u.repair(threadID)
		if err == nil {
			found = r.found
		}
		return err
	})
	return found, err
}

func (u *unit) repair(threadID string) (*repairs, error) {
	t, err := u.Thread(threadID)
	if err != nil {
		return nil, err
	}
	r := &repairs{unit: u, t: t, responses: map[string]rows.ToolResponseEvent{}, ends: map[string]*rows.Event{}}
	for _, step := range []func() error{r.links, r.load, r.results, r.endEvents, r.lost} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if r.incomplete {
		return r, nil
	}
	for _, step := range []func() error{r.eventLinks, r.counters, r.openTurn, r.status, r.callStates, r.settled, r.tasksEnd, r.counters} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// results puts missing results (FAULTS B3) back where they stood: behind the
// message with the calls, in their order.
func (r *repairs) results() error {
	if r.incomplete {
		return nil
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
			body, err := rows.Encode(result)
			if err != nil {
				return err
			}
			if err := r.Exec(rows.InsertMessage, r.t.ID, seq, result.ID, body); err != nil {
				return err
			}
			r.messageList = append(r.messageList, &storedMessage{Message: rows.Message{Seq: seq, ID: result.ID, Body: body}, m: result})
			r.did("call %s has its result in the conversation again", call.ID)
		}
	}
	slices.SortFunc(r.messageList, func(a, b *storedMessage) int { return int(a.Seq - b.Seq) })
	return nil
}

// endEvents gives each closed turn the event that says so. If exactly as many
// events are missing in the log, these are the ones, and take their numbers.
func (r *repairs) endEvents() error {
	if r.incomplete {
		return nil
	}
	if n := len(r.eventList); n > 0 && r.eventList[n-1].Seq > r.t.LastEvent {
		r.did("last event is %d, as its rows say, not %d", r.eventList[n-1].Seq, r.t.LastEvent)
		r.t.LastEvent, r.t.Dirty = r.eventList[n-1].Seq, true
	}
	var without []*rows.Turn
	for _, t := range r.turnList {
		if t.State == memory.TurnClosed && r.ends[t.ID] == nil {
			without = append(without, t)
		}
	}
	free := r.freeEvents()
	if len(free) > len(without) {
		return nil // more is lost than ends
	}
	for i, turn := range without {
		e := &rows.Event{Event: agent.Event{ThreadID: r.t.ID, Type: agent.EventDone, TurnID: turn.ID}, AtMs: turn.ClosedMs}
		data := any(rows.TurnDone{ResponseTimeMs: turn.ClosedMs - turn.OpenedMs, Usage: turn.Usage})
		if turn.Outcome != agent.ThreadCompleted {
			e.Type, data = agent.EventError, rows.TurnError{Code: turn.ErrorCode, Message: turn.Error, Retryable: turn.Outcome == agent.ThreadFailed}
		}
		if i < len(free) {
			e.Seq = free[i]
		} else {
			r.t.LastEvent++
			e.Seq, r.t.Dirty = r.t.LastEvent, true
		}
		var err error
		if e.DataText, err = rows.Encode(data); err != nil {
			return err
		}
		if err := r.Exec(rows.InsertEvent, r.t.ID, e.Seq, e.Type, turn.ID, e.DataText, e.AtMs); err != nil {
			return err
		}
		r.eventList, r.ends[turn.ID] = append(r.eventList, e), e
		r.did("the log has the %s event of turn %s again", e.Type, turn.ID)
	}
	slices.SortFunc(r.eventList, func(a, b *rows.Event) int { return int(a.Seq - b.Seq) })
	return nil
}

// counters makes the numbers in the thread row those of its rows.
func (r *repairs) counters() error {
	if err := r.Flush(); err != nil { // turns that were changed count too
		return err
	}
	t := r.t
	for _, c := range []struct {
		name  string
		have  *int64
		query string
		least bool // rows may have moved to other threads
	}{
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
		if err := r.Row(c.query, t.ID).Scan(&want); err != nil {
			return err
		}
		if *c.have != want && (!c.least || *c.have < want) {
			r.did("%s is %d, as its rows say, not %d", c.name, want, *c.have)
			*c.have, t.Dirty = want, true
		}
	}
	var price float64
	if err := r.Row(`SELECT COALESCE(SUM(price), 0) FROM turns WHERE thread_id = ?`, t.ID).Scan(&price); err != nil {
		return err
	}
	// Sums of the same prices in another order differ by their last digits.
	if math.Abs(price-t.TotalPrice) > 1e-9*max(1, math.Abs(price)) {
		r.did("totalPrice is %g, as its rows say, not %g", price, t.TotalPrice)
		t.TotalPrice, t.Dirty = price, true
	}
	return nil
}

// openTurn closes turns of which the log tells the end, and makes the thread name
// the one that is left open. Two open turns are told by rule 5.
func (r *repairs) openTurn() error {
	t, open := r.t, ""
	for _, turn := range r.turnList {
		e := r.ends[turn.ID]
		if turn.State == memory.TurnOpen && e != nil {
			if err := r.closeAs(turn, e); err != nil {
				return err
			}
		}
		if turn.State == memory.TurnOpen && (open == "" || open != t.OpenTurnID) {
			open = turn.ID // the one named, else the last
		}
	}
	if t.OpenTurnID != open {
		r.did("its open turn is %s, not %s", cmp.Or(open, "none"), cmp.Or(t.OpenTurnID, "none"))
		t.OpenTurnID, t.Dirty = open, true
	}
	return nil
}

// closeAs closes a turn as its end in the log says.
func (r *repairs) closeAs(turn *rows.Turn, end *rows.Event) error {
	turn.State, turn.ClosedMs, turn.ClosedAt, turn.Dirty = memory.TurnClosed, end.AtMs, rows.StampOrNil(end.AtMs), true
	if turn.Outcome == "" {
		turn.Outcome = agent.ThreadCompleted
		if end.Type == agent.EventError {
			turn.Outcome, turn.Reason, turn.ErrorCode = agent.ThreadFailed, agent.ReasonError, string(agent.ReasonError)
		}
	}
	r.did("turn %s is closed, as the log says", turn.ID)
	if turn.Closed != "" {
		return nil
	}
	return r.Remember(turn, memory.Closed{Outcome: turn.Outcome})
}

// status makes the state of the thread that of its last turn.
func (r *repairs) status() (err error) {
	t, n := r.t, len(r.turnList)
	want, reason := t.Status, agent.Reason("")
	switch {
	case t.OpenTurnID != "" && (t.Status.Final() || t.Status == agent.ThreadPending):
		want, err = rules.WaitsFor(r, t.OpenTurnID)
	case t.OpenTurnID != "" || t.Status.Final():
	case n == 0:
		want = agent.ThreadPending
	default:
		if want = r.turnList[n-1].Outcome; want == agent.ThreadFailed {
			reason = r.turnList[n-1].Reason
		}
	}
	if err == nil && want != t.Status {
		r.did("its state is %s, not %s", want, t.Status)
		t.Status, t.Reason, t.Dirty = want, reason, true
	}
	return err
}

// callStates ends calls of which the log tells the result, and those of closed turns.
func (r *repairs) callStates() error {
	for _, c := range r.callList {
		if c.Status.Final() {
			continue
		}
		if told := r.responses[c.ID]; told.Status.Final() {
			c.Status, c.ErrorReason, c.DurationMs = told.Status, told.ErrorReason, told.DurationMs
			if told.Result != nil {
				c.Result = *told.Result
			}
			if err := r.SaveCall(r.t, c); err != nil {
				return err
			}
			r.did("call %s ended as %s, as the log says", c.ID, c.Status)
			continue
		}
		turn, err := r.Turn(c.TurnID)
		if err != nil {
			return err
		}
		if turn.State == memory.TurnClosed {
			if err := r.Finish(r.t, turn, c, rules.Ending{Status: agent.CallUnknown, Reason: agent.ErrUnknown, Text: agent.TextUnknown}); err != nil {
				return err
			}
			r.did("call %s ended as unknown: its turn is closed", c.ID)
		}
	}
	return nil
}

// settled ends what only open turns may have: open approvals and questions,
// reservations.
func (r *repairs) settled() error {
	const closed = ` AND turn_id NOT IN (SELECT id FROM turns WHERE state = 'open')`
	for _, w := range []struct{ what, find, settle, state string }{
		{rows.AskApproval, `SELECT id FROM asks WHERE kind = 'approval' AND thread_id = ? AND outcome = ''` + closed,
			`UPDATE asks SET outcome = ?, settled_at = ? WHERE id = ?`, rows.OutcomeAborted},
		{rows.AskQuestion, `SELECT id FROM asks WHERE kind = 'question' AND thread_id = ? AND outcome = ''` + closed,
			`UPDATE asks SET outcome = ?, settled_at = ? WHERE id = ?`, rows.OutcomeAborted},
	} {
		open, err := r.Strings(w.find, r.t.ID)
		if err != nil {
			return err
		}
		for _, id := range open {
			if err := r.Exec(w.settle, w.state, r.t.At, id); err != nil {
				return err
			}
			r.did("%s %s is settled as aborted: its turn is closed", w.what, id)
		}
	}
	const lost = ` FROM reservations WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ? AND state = 'closed')`
	var n int
	if err := r.Row(`SELECT COUNT(*)`+lost, r.t.ID).Scan(&n); err != nil || n == 0 {
		return err
	}
	r.did("%d reservations of closed turns are given back", n)
	return r.Exec(`DELETE`+lost, r.t.ID)
}

// tasksEnd makes the tasks of tools end with their calls, and those of a
// sub-agent's turns with the turns.
func (r *repairs) tasksEnd() error {
	open, err := r.Strings(`SELECT id FROM tasks WHERE status IN ('pending', 'running') AND (thread_id = ? OR id IN (SELECT task_id FROM turns WHERE thread_id = ?))`, r.t.ID, r.t.ID)
	if err != nil || len(open) == 0 {
		return err
	}
	for _, c := range r.callList {
		if !c.Delegation && c.Status.Final() && slices.Contains(open, c.TaskID) {
			r.did("task %s is %s, as its call", c.TaskID, rows.TaskOfCall(c.Status))
			if err := r.TaskEnd(r.t, c.TaskID, rows.TaskOfCall(c.Status), c.Result); err != nil {
				return err
			}
		}
	}
	for _, t := range r.turnList {
		if t.State == memory.TurnClosed && slices.Contains(open, t.TaskID) {
			r.did("task %s is %s, as its turn", t.TaskID, agent.TaskStatusOf(t.Outcome))
			if err := r.EndDelegatorTask(t, cmp.Or(t.Answer, t.Error)); err != nil {
				return err
			}
		}
	}
	return nil
}

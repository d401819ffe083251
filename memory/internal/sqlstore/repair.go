package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// repairs is a repair of one thread under way.
type repairs struct {
	*unit
	t     *threadRow
	found []memory.Finding
	// responses are the results that the log tells, by call.
	responses map[string]toolResponse

	log      []*eventRow
	turnList []*turnRow
	texts    map[int64]*storedMessage
	// cutAt is the last event that is there and cutTo the last that was; equal if
	// none is missing behind.
	cutAt, cutTo int64
	// What is lost is not counted anew.
	lostTurns, lostEntries, lostCalls bool
	// broken means that a row cannot be read: what it says is not guessed. Of a
	// thread that lost turns nothing but messages is mended either.
	broken bool
}

// did notes what was mended.
func (r *repairs) did(format string, args ...any) {
	r.found = append(r.found, memory.Finding{Kind: memory.FoundWrong, Detail: fmt.Sprintf(format, args...), Mendable: true})
}

// left notes what cannot be mended.
func (r *repairs) left(kind memory.FindingKind, format string, args ...any) {
	r.found = append(r.found, memory.Finding{Kind: kind, Detail: fmt.Sprintf(format, args...)})
}

// Repair mends what follows from a thread's other rows. Parents are to be
// repaired before their children, whose repair writes into them.
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
	t, err := u.thread(threadID)
	if err != nil {
		return nil, err
	}
	r := &repairs{unit: u, t: t, responses: map[string]toolResponse{}}
	for _, step := range []func() error{r.readable, r.lost, r.transcript} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if r.broken || r.lostTurns {
		return r, nil
	}
	// Numbers before rows: what is appended below continues them.
	for _, step := range []func() error{
		r.family, r.counters, r.eventNumbers, r.turnsOpen, r.status, r.calls, r.answers, r.ends, r.results, r.settled,
		r.toolTasks, r.creation, r.childEnds, r.cut, r.counters,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// counters makes the numbers in the thread row those of its rows.
func (r *repairs) counters() error {
	if err := r.flush(); err != nil { // turns that were changed count too
		return err
	}
	t := r.t
	for _, c := range []struct {
		name  string
		have  *int64
		query string
		least bool // rows may have moved to other threads, or are lost
	}{
		{"last inbox entry", &t.lastEntry, `SELECT COALESCE(MAX(seq), 0) FROM inbox WHERE thread_id = ?`, true},
		{"last turn", &t.lastTurn, `SELECT COALESCE(MAX(n), 0) FROM turns WHERE thread_id = ?`, r.lostTurns},
		{"last child", &t.lastChild, `SELECT COALESCE(MAX(ordinal), 0) FROM threads WHERE parent_id = ? AND parent_id <> ''`, true},
		{"waiting", &t.waiting, `SELECT COUNT(*) FROM inbox WHERE state = 'waiting' AND quiet = 0 AND thread_id = ?`, r.lostEntries},
		{"toolCallCount", &t.ToolCallCount, `SELECT COUNT(*) FROM tool_calls WHERE thread_id = ?`, r.lostCalls},
		{"promptTokens", &t.PromptTokens, `SELECT COALESCE(SUM(prompt_tokens), 0) FROM turns WHERE thread_id = ?`, r.lostTurns},
		{"completionTokens", &t.CompletionTokens, `SELECT COALESCE(SUM(completion_tokens), 0) FROM turns WHERE thread_id = ?`, r.lostTurns},
		{"totalTokens", &t.TotalTokens, `SELECT COALESCE(SUM(total_tokens), 0) FROM turns WHERE thread_id = ?`, r.lostTurns},
		{"requestCount", &t.RequestCount, `SELECT COALESCE(SUM(requests), 0) FROM turns WHERE thread_id = ?`, r.lostTurns},
		{"totalTimeMs", &t.TotalTimeMs, `SELECT COALESCE(SUM(closed_at - opened_at), 0) FROM turns WHERE state = 'closed' AND thread_id = ?`, r.lostTurns},
	} {
		var want int64
		if err := r.row(c.query, t.ID).Scan(&want); err != nil {
			return err
		}
		if *c.have != want && (!c.least || *c.have < want) {
			r.did("%s is %d, as its rows say, not %d", c.name, want, *c.have)
			*c.have, t.dirty = want, true
		}
	}
	var price float64
	if err := r.row(`SELECT COALESCE(SUM(price), 0) FROM turns WHERE thread_id = ?`, t.ID).Scan(&price); err != nil {
		return err
	}
	// Sums of the same prices in another order differ by their last digits.
	if !r.lostTurns && math.Abs(price-t.TotalPrice) > 1e-9*max(1, math.Abs(price)) {
		r.did("totalPrice is %g, as its rows say, not %g", price, t.TotalPrice)
		t.TotalPrice, t.dirty = price, true
	}
	return nil
}

// turnsOpen leaves one turn open at most, the one that the thread row names.
func (r *repairs) turnsOpen() error {
	t := r.t
	if err := r.ended(); err != nil {
		return err
	}
	open, err := r.strings(`SELECT id FROM turns WHERE thread_id = ? AND state = 'open' ORDER BY n`, t.ID)
	if err != nil {
		return err
	}
	keep := ""
	for _, id := range open {
		if keep != t.OpenTurnID || keep == "" {
			keep = id // the one named, else the last
		}
	}
	if t.OpenTurnID != keep {
		r.did("its open turn is %s, not %s", or(keep, "none"), or(t.OpenTurnID, "none"))
		t.OpenTurnID, t.dirty = keep, true
	}
	for _, id := range open {
		if id == keep {
			continue
		}
		turn, err := r.turn(id)
		if err != nil {
			return err
		}
		status, reason := t.Status, t.Reason
		closed := memory.Closed{Outcome: agent.ThreadFailed}
		err = r.end(t, turn, memory.CloseRequest{
			ThreadID: t.ID, TurnID: id, Outcome: agent.ThreadFailed, Reason: agent.ReasonTerminated, Code: string(agent.ReasonTerminated),
			Message: "closed by a repair: another turn of the thread is open",
		}, &closed)
		if err != nil {
			return err
		}
		t.OpenTurnID, t.Status, t.Reason = keep, status, reason
		if err := r.deliver(turn, &closed); err != nil {
			return err
		}
		if err := r.remember(turn, closed); err != nil {
			return err
		}
		r.did("turn %s is closed: another one is open", id)
	}
	return nil
}

// ended closes turns of which the log tells the end.
func (r *repairs) ended() error {
	ids, err := r.strings(`SELECT DISTINCT turns.id FROM turns JOIN events e ON e.thread_id = turns.thread_id AND e.turn_id = turns.id AND e.type IN ('done', 'error')`+
		` WHERE turns.thread_id = ? AND turns.state = 'open'`, r.t.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		turn, err := r.turn(id)
		if err != nil {
			return err
		}
		var typ string
		var at int64
		err = r.row(`SELECT type, at FROM events WHERE thread_id = ? AND turn_id = ? AND type IN ('done', 'error') ORDER BY seq LIMIT 1`, r.t.ID, id).Scan(&typ, &at)
		if err != nil {
			return err
		}
		turn.State, turn.closedMs, turn.ClosedAt, turn.dirty = memory.TurnClosed, at, stampOrNil(at), true
		if turn.Outcome == "" {
			turn.Outcome = agent.ThreadCompleted
			if typ == agent.EventError {
				turn.Outcome, turn.Reason, turn.ErrorCode = agent.ThreadFailed, agent.ReasonError, string(agent.ReasonError)
			}
		}
		if turn.closed == "" {
			if err := r.remember(turn, memory.Closed{Outcome: turn.Outcome}); err != nil {
				return err
			}
		}
		r.did("turn %s is closed, as the log says", id)
	}
	return r.flush()
}

// status makes the state of the thread that of its last turn.
func (r *repairs) status() error {
	t := r.t
	last, err := r.lastTurn(t)
	if err != nil {
		return err
	}
	want, reason := t.Status, t.Reason
	switch {
	case t.OpenTurnID != "" && (t.Status.Final() || t.Status == agent.ThreadPending):
		if want, err = waitsFor(r, t.OpenTurnID); err != nil {
			return err
		}
		reason = ""
	case t.OpenTurnID == "" && last != nil && !t.Status.Final():
		want, reason = last.Outcome, last.Reason
		if want != agent.ThreadFailed {
			reason = ""
		}
	case t.OpenTurnID == "" && last == nil && !t.Status.Final() && t.Status != agent.ThreadPending:
		want, reason = agent.ThreadPending, ""
	}
	if want != t.Status {
		r.did("its state is %s, not %s", want, t.Status)
		t.Status, t.Reason, t.dirty = want, reason, true
	}
	return nil
}

// ends gives each closed turn the event that says so.
func (r *repairs) ends() error {
	ids, err := r.strings(`SELECT id FROM turns WHERE thread_id = ? AND state = 'closed' AND NOT EXISTS`+
		` (SELECT 1 FROM events e WHERE e.thread_id = turns.thread_id AND e.turn_id = turns.id AND e.type IN ('done', 'error')) ORDER BY n`, r.t.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		turn, err := r.turn(id)
		if err != nil {
			return err
		}
		typ, data := agent.EventDone, any(turnDone{ResponseTimeMs: turn.closedMs - turn.opened, Usage: turn.Usage})
		if turn.Outcome != agent.ThreadCompleted {
			typ, data = agent.EventError, turnError{Code: turn.ErrorCode, Message: turn.Error, Retryable: turn.Outcome == agent.ThreadFailed}
		}
		if err := r.event(r.t, id, typ, data); err != nil {
			return err
		}
		r.did("the log has the %s event of turn %s again", typ, id)
	}
	return nil
}

// calls ends calls of closed turns and gives each call its events.
func (r *repairs) calls() error {
	logged, err := r.logged(r.t.ID)
	if err != nil {
		return err
	}
	rows, err := r.rows(selectCall+` WHERE thread_id = ? ORDER BY created_at, step, idx`, r.t.ID)
	calls, err := collect(rows, err, (*callRow).targets, (*callRow).loaded)
	if err != nil {
		return err
	}
	for _, c := range calls {
		turn, err := r.turn(c.TurnID)
		if agent.CodeOf(err) == agent.CodeNotFound {
			continue
		}
		if err != nil {
			return err
		}
		final, announced := c.Status.Final(), logged[agent.EventToolCall+c.ID] || c.delegation && c.SubAgentThreadID == ""
		if !announced && (final || !c.delegation) {
			if err := r.announce(r.t, turn, c); err != nil {
				return err
			}
			r.did("the log has the tool_call event of call %s again", c.ID)
		}
		switch responded := logged[agent.EventToolResponse+c.ID]; {
		case final && !responded:
			if err := r.finish(r.t, turn, c, ending{status: c.Status, reason: c.ErrorReason, text: c.Result, ms: c.DurationMs}); err != nil {
				return err
			}
			r.did("the log has the result of call %s again", c.ID)
		case !final && responded && r.responses[c.ID].Status.Final():
			told := r.responses[c.ID]
			c.Status, c.ErrorReason, c.DurationMs = told.Status, told.ErrorReason, told.DurationMs
			if told.Result != nil {
				c.Result = *told.Result
			}
			if err := r.saveCall(r.t, c); err != nil {
				return err
			}
			r.did("call %s ended as %s, as the log says", c.ID, c.Status)
		case !final && !responded && turn.State == memory.TurnClosed:
			if err := r.finish(r.t, turn, c, ending{status: agent.CallUnknown, reason: agent.ErrUnknown, text: agent.TextUnknown}); err != nil {
				return err
			}
			r.did("call %s ended as unknown: its turn is closed", c.ID)
		}
	}
	return nil
}

// logged says which calls have which events, as type + call id.
func (r *repairs) logged(threadID string) (map[string]bool, error) {
	rows, err := r.rows(`SELECT thread_id, seq, type, turn_id, data, at FROM events WHERE thread_id = ? AND type IN ('tool_call', 'tool_response')`, threadID)
	events, err := collect(rows, err,
		func(e *eventRow) []any { return []any{&e.ThreadID, &e.Seq, &e.Type, &e.TurnID, &e.data, &e.at} }, func(*eventRow) error { return nil })
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, e := range events {
		var d toolCall
		// Payloads that are no object name no call.
		_ = json.Unmarshal([]byte(e.data), &d)
		out[e.Type+d.ToolCallID] = true
		if e.Type == agent.EventToolResponse {
			var told toolResponse
			_ = json.Unmarshal([]byte(e.data), &told)
			r.responses[d.ToolCallID] = told
		}
		if e.Type == agent.EventToolCall && d.SubAgentThread != "" {
			out[e.Type+d.ToolCallID+d.SubAgentThread] = true
		}
	}
	return out, nil
}

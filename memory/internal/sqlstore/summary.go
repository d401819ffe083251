package sqlstore

import (
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	summaryMutable = `state,attempt,failed,fence,scope,number,from_seq,to_seq,last_seq,body,tokens,model,used,created_at`
	summaryColumns = summaryMutable + `,thread_id,turn_id,step,cause`
	selectSummary  = `SELECT ` + summaryColumns + ` FROM summaries`
)

var (
	insertSummary = insertSQL("summaries", summaryColumns)
	updateSummary = `UPDATE summaries SET ` + strings.ReplaceAll(summaryMutable, ",", " = ?,") + ` = ? WHERE thread_id = ? AND turn_id = ? AND step = ? AND cause = ?`
)

// summaryRow is a summary under way or stored.
type summaryRow struct {
	memory.Summary
	state   string
	failed  int
	fence   fence
	used    string
	created int64
}

func (s *summaryRow) targets() []any {
	return []any{
		&s.state, &s.Attempts, &s.failed, &s.fence.seen, &s.fence.Scope, &s.fence.Number, &s.ReplacesFrom, &s.ReplacesTo, &s.LastSeq,
		&s.Text, &s.Window, &s.Model, &s.used, &s.created, &s.ThreadID, &s.TurnID, &s.Step, &s.Cause,
	}
}

func (s *summaryRow) values() []any {
	return []any{
		s.state, s.Attempts, s.failed, s.fence.seen, s.fence.Scope, s.fence.Number, s.ReplacesFrom, s.ReplacesTo, s.LastSeq,
		s.Text, s.Window, s.Model, s.used, s.created, s.ThreadID, s.TurnID, s.Step, string(s.Cause),
	}
}

func viewSummary(s *summaryRow) (memory.Summary, error) {
	s.CreatedAt = stamp(s.created)
	return s.Summary, decode(s.used, &s.Summary.Usage)
}

// summary loads a summary; nil if none was begun.
func (u *unit) summary(turnID string, step int, cause memory.Cause) (*summaryRow, error) {
	rows, err := u.rows(selectSummary+` WHERE turn_id = ? AND step = ? AND cause = ?`, turnID, step, string(cause))
	found, err := collect(rows, err, (*summaryRow).targets, func(*summaryRow) error { return nil })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// summaryStep is the key of a summary's reservation: it does not meet that of the
// model call of the same step.
func summaryStep(step int) int { return -step }

// BeginSummary makes an attempt at a summary current, or returns the stored one.
func (s *Store) BeginSummary(ctx context.Context, r memory.SummaryBegin) (start memory.SummaryStart, err error) {
	err = s.write(ctx, "begin-summary", func(u *unit) error {
		start = memory.SummaryStart{}
		t, turn, err := u.open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		if err := turn.cancelled(); err != nil {
			return err
		}
		if err := u.beginSummary(t, r, &start); err != nil {
			return err
		}
		start.Thread, err = u.view(t)
		start.Turn = turn.Turn
		return err
	})
	return start, err
}

func (u *unit) beginSummary(t *threadRow, r memory.SummaryBegin, start *memory.SummaryStart) error {
	if r.Step < 1 || !r.Cause.Valid() {
		return agent.Errorf(agent.CodeInvalid, "a summary of step %d for cause %q is not possible", r.Step, r.Cause)
	}
	row, err := u.summary(r.TurnID, r.Step, r.Cause)
	if err != nil {
		return err
	}
	begin := memory.ModelBegin{TurnID: r.TurnID, Step: summaryStep(r.Step), Budget: r.Budget}
	switch {
	case row == nil:
		if err := u.reserveFor(t, begin); err != nil {
			return err
		}
		row = &summaryRow{state: stepFlight, created: t.at, Summary: memory.Summary{
			ThreadID: t.ID, TurnID: r.TurnID, Step: r.Step, Cause: r.Cause, Attempts: 1,
		}}
		row.fence.Fence = r.Fence
		start.Attempt = 1
		return u.exec(insertSummary, row.values()...)
	case row.state == stepStored:
		v, err := viewSummary(row)
		start.Attempt, start.Stored = row.Attempts, &v
		return err
	case row.state == stepFlight && row.fence.repeats(r.Fence):
		start.Attempt = row.Attempts
		return nil
	}
	ok, err := row.fence.admit(r.Fence)
	if err != nil {
		return err
	}
	if !ok {
		return memory.Stale("attempt %d of activity %s is older than the current one of the summary of turn %s", r.Fence.Number, r.Fence.Scope, r.TurnID)
	}
	if lost := row.Attempts - row.failed; lost >= orInt(r.MaxLost, defaultMaxLost) {
		return agent.Errorf(agent.CodeLimit, "making a summary for step %d of turn %s killed its worker %d times: it is not tried again", r.Step, r.TurnID, lost)
	}
	if err := u.reserveFor(t, begin); err != nil {
		return err
	}
	row.Attempts++
	row.state = stepFlight
	start.Attempt = row.Attempts
	return u.exec(updateSummary, row.values()...)
}

// currentSummary is the summary row of an attempt; another attempt's is stale.
func (u *unit) currentSummary(threadID, turnID string, step int, cause memory.Cause, attempt int) (*threadRow, *turnRow, *summaryRow, error) {
	t, turn, err := u.open(threadID, turnID)
	if err != nil {
		return nil, nil, nil, err
	}
	row, err := u.summary(turnID, step, cause)
	if err != nil {
		return nil, nil, nil, err
	}
	if row == nil || row.Attempts != attempt {
		return nil, nil, nil, memory.Stale("attempt %d at the summary of step %d of turn %s is not the current one", attempt, step, turnID)
	}
	return t, turn, row, nil
}

// FailSummary records what a failed attempt cost.
func (s *Store) FailSummary(ctx context.Context, r memory.SummaryFailure) error {
	return s.write(ctx, "fail-summary", func(u *unit) error {
		t, turn, row, err := u.currentSummary(r.ThreadID, r.TurnID, r.Step, r.Cause, r.Attempt)
		if err != nil || row.state != stepFlight {
			return err
		}
		row.state = stepFailed
		row.failed++
		if err := u.charge(t, turn, summaryStep(r.Step), r.Usage, r.Duration); err != nil {
			return err
		}
		if err := u.holdSummary(t, turn, r); err != nil {
			return err
		}
		return u.exec(updateSummary, row.values()...)
	})
}

// holdSummary keeps and logs when a summary is tried again. Its step's call, which
// wants it, waits.
func (u *unit) holdSummary(t *threadRow, turn *turnRow, r memory.SummaryFailure) error {
	if r.Wait == nil {
		return nil
	}
	step, err := u.step(r.TurnID, r.Step)
	if err != nil || step == nil {
		return err
	}
	if err := u.holdModel(t, turn, step, memory.ModelFailure{NotCalled: r.NotCalled, Wait: r.Wait}); err != nil {
		return err
	}
	return u.saveStep(step)
}

// SaveSummary stores a summary, once.
func (s *Store) SaveSummary(ctx context.Context, r memory.SummaryRecord) (stored memory.Summary, err error) {
	err = s.write(ctx, "summary", func(u *unit) error {
		t, turn, row, err := u.currentSummary(r.ThreadID, r.TurnID, r.Step, r.Cause, r.Attempt)
		if err != nil {
			return err
		}
		if row.state == stepStored {
			stored, err = viewSummary(row)
			return err
		}
		if row.state == stepFailed {
			return memory.Stale("attempt %d at the summary of step %d of turn %s has failed", r.Attempt, r.Step, r.TurnID)
		}
		if r.ReplacesTo > t.lastMessage || r.ReplacesFrom > r.ReplacesTo || r.ReplacesTo < t.summarizedTo {
			return agent.Errorf(agent.CodeInvalid, "a summary of messages %d to %d of thread %s is not possible: it has %d, and %d are summarised already",
				r.ReplacesFrom, r.ReplacesTo, t.ID, t.lastMessage, t.summarizedTo)
		}
		row.state = stepStored
		row.ReplacesFrom, row.ReplacesTo, row.LastSeq = r.ReplacesFrom, r.ReplacesTo, t.lastMessage
		row.Text, row.Window, row.Model, row.created = clean(r.Text), r.Window, r.Model, t.at
		if row.used, err = encode(r.Usage); err != nil {
			return err
		}
		if err := u.charge(t, turn, summaryStep(r.Step), r.Usage, r.Duration); err != nil {
			return err
		}
		t.Compactions++
		t.dirty = true // also where nothing was left out, called or logged
		if row.Text != "" {
			t.summarizedFrom, t.summarizedTo = row.ReplacesFrom, row.ReplacesTo
			err := u.event(t, turn.ID, agent.EventContextSummary, contextSummary{ReplacesFrom: row.ReplacesFrom, ReplacesTo: row.ReplacesTo, Summary: row.Text})
			if err != nil {
				return err
			}
		}
		if err := u.exec(updateSummary, row.values()...); err != nil {
			return err
		}
		stored, err = viewSummary(row)
		return err
	})
	return stored, err
}

// charge counts what a call to a model used and settles its reservation. No call
// was made if it has no requests.
func (u *unit) charge(t *threadRow, turn *turnRow, step int, use agent.Usage, took time.Duration) error {
	if use.Requests > 0 {
		turn.Usage, turn.dirty = turn.Usage.Add(use), true
		t.count(use)
		if err := u.use(t, use, took); err != nil {
			return err
		}
	}
	return u.settleReservation(turn.ID, step)
}

// Summaries lists a thread's stored summaries in the order they were made.
func (s *Store) Summaries(ctx context.Context, threadID string) (summaries []memory.Summary, err error) {
	err = s.read(ctx, func(q *reader) error {
		summaries, err = list(q, threadID, (*summaryRow).targets, viewSummary,
			selectSummary+` WHERE thread_id = ? AND state = 'stored' ORDER BY last_seq, to_seq, created_at, cause`, threadID)
		return err
	})
	return summaries, err
}

package rules

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

var (
	insertSummary = rows.InsertSQL("summaries", rows.SummaryColumns)
	updateSummary = `UPDATE summaries SET ` + strings.ReplaceAll(rows.SummaryMutable, ",", " = ?,") + ` = ? WHERE thread_id = ? AND turn_id = ? AND step = ? AND cause = ?`
)

// summary loads a summary; nil if none was begun.
func (u *Unit) summary(turnID string, step int, cause memory.Cause) (*rows.Summary, error) {
	found, err := rows.Find(u, (*rows.Summary).Targets, nil, rows.SelectSummary+` WHERE turn_id = ? AND step = ? AND cause = ?`, turnID, step, string(cause))
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
	err = s.write(ctx, "begin-summary", func(u *Unit) error {
		start = memory.SummaryStart{}
		t, turn, err := u.Open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		if err := turn.Cancelled(); err != nil {
			return err
		}
		if err := u.beginSummary(t, r, &start); err != nil {
			return err
		}
		start.Thread, err = u.View(t)
		start.Turn = turn.Turn
		return err
	})
	return start, err
}

func (u *Unit) beginSummary(t *rows.Thread, r memory.SummaryBegin, start *memory.SummaryStart) error {
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
		row = &rows.Summary{State: rows.StepFlight, Created: t.At, Summary: memory.Summary{
			ThreadID: t.ID, TurnID: r.TurnID, Step: r.Step, Cause: r.Cause, Attempts: 1,
		}}
		row.Fence.Fence = r.Fence
		start.Attempt = 1
		return u.Exec(insertSummary, rows.Values(row.Targets())...)
	case row.State == rows.StepStored:
		v, err := rows.ViewSummary(row)
		start.Attempt, start.Stored = row.Attempts, &v
		return err
	case row.State == rows.StepFlight && row.Fence.Repeats(r.Fence):
		start.Attempt = row.Attempts
		return nil
	}
	ok, err := row.Fence.Admit(r.Fence)
	if err != nil {
		return err
	}
	if !ok {
		return memory.Stale("attempt %d of activity %s is older than the current one of the summary of turn %s", r.Fence.Number, r.Fence.Scope, r.TurnID)
	}
	if lost := row.Attempts - row.Failed; lost >= cmp.Or(r.MaxLost, rows.DefaultMaxLost) {
		return agent.Errorf(agent.CodeLimit, "making a summary for step %d of turn %s killed its worker %d times: it is not tried again", r.Step, r.TurnID, lost)
	}
	if err := u.reserveFor(t, begin); err != nil {
		return err
	}
	row.Attempts++
	row.State = rows.StepFlight
	start.Attempt = row.Attempts
	return u.Exec(updateSummary, rows.Values(row.Targets())...)
}

// currentSummary is the summary row of an attempt; another attempt's is stale.
func (u *Unit) currentSummary(threadID, turnID string, step int, cause memory.Cause, attempt int) (*rows.Thread, *rows.Turn, *rows.Summary, error) {
	t, turn, err := u.Open(threadID, turnID)
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
	return s.write(ctx, "fail-summary", func(u *Unit) error {
		t, turn, row, err := u.currentSummary(r.ThreadID, r.TurnID, r.Step, r.Cause, r.Attempt)
		if err != nil || row.State != rows.StepFlight {
			return err
		}
		row.State = rows.StepFailed
		row.Failed++
		if err := u.charge(t, turn, summaryStep(r.Step), r.Usage, r.Duration); err != nil {
			return err
		}
		if err := u.holdSummary(t, turn, r); err != nil {
			return err
		}
		return u.Exec(updateSummary, rows.Values(row.Targets())...)
	})
}

// holdSummary keeps and logs when a summary is tried again. Its step's call, which
// wants it, waits.
func (u *Unit) holdSummary(t *rows.Thread, turn *rows.Turn, r memory.SummaryFailure) error {
	if r.Wait == nil {
		return nil
	}
	step, err := u.Step(r.TurnID, r.Step)
	if err != nil || step == nil {
		return err
	}
	if err := u.holdModel(t, turn, step, memory.ModelFailure{NotCalled: r.NotCalled, Wait: r.Wait}); err != nil {
		return err
	}
	return u.SaveStep(step)
}

// SaveSummary stores a summary, once.
func (s *Store) SaveSummary(ctx context.Context, r memory.SummaryRecord) (stored memory.Summary, err error) {
	err = s.write(ctx, "summary", func(u *Unit) error {
		t, turn, row, err := u.currentSummary(r.ThreadID, r.TurnID, r.Step, r.Cause, r.Attempt)
		if err != nil {
			return err
		}
		if row.State == rows.StepStored {
			stored, err = rows.ViewSummary(row)
			return err
		}
		if row.State == rows.StepFailed {
			return memory.Stale("attempt %d at the summary of step %d of turn %s has failed", r.Attempt, r.Step, r.TurnID)
		}
		if r.ReplacesTo > t.LastMessage || r.ReplacesFrom > r.ReplacesTo || r.ReplacesTo < t.SummaryTo {
			return agent.Errorf(agent.CodeInvalid, "a summary of messages %d to %d of thread %s is not possible: it has %d, and %d are summarised already",
				r.ReplacesFrom, r.ReplacesTo, t.ID, t.LastMessage, t.SummaryTo)
		}
		row.State = rows.StepStored
		row.ReplacesFrom, row.ReplacesTo, row.LastSeq = r.ReplacesFrom, r.ReplacesTo, t.LastMessage
		row.Text, row.Window, row.Model, row.Created = rows.Clean(r.Text), r.Window, r.Model, t.At
		if row.Used, err = rows.Encode(r.Usage); err != nil {
			return err
		}
		if err := u.charge(t, turn, summaryStep(r.Step), r.Usage, r.Duration); err != nil {
			return err
		}
		t.Compactions++
		t.Dirty = true // also where nothing was left out, called or logged
		if row.Text != "" {
			t.SummaryFrom, t.SummaryTo = row.ReplacesFrom, row.ReplacesTo
			err := u.Event(t, turn.ID, agent.EventContextSummary, rows.ContextSummaryEvent{ReplacesFrom: row.ReplacesFrom, ReplacesTo: row.ReplacesTo, Summary: row.Text})
			if err != nil {
				return err
			}
		}
		if err := u.Exec(updateSummary, rows.Values(row.Targets())...); err != nil {
			return err
		}
		stored, err = rows.ViewSummary(row)
		return err
	})
	return stored, err
}

// charge counts what a call to a model used and settles its reservation. No call
// was made if it has no requests.
func (u *Unit) charge(t *rows.Thread, turn *rows.Turn, step int, use agent.Usage, took time.Duration) error {
	if use.Requests > 0 {
		turn.Usage, turn.Dirty = turn.Usage.Add(use), true
		t.Count(use)
		if err := u.use(t, use, took); err != nil {
			return err
		}
	}
	return u.settleReservation(turn.ID, step)
}

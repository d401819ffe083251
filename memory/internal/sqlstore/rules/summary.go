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
func (u *Unit) summary(turnID string, step int, cause memory.Cause) *rows.Summary {
	found := rows.Find(u, (*rows.Summary).Targets, nil, rows.SelectSummary+` WHERE turn_id = ? AND step = ? AND cause = ?`, turnID, step, string(cause))
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// summaryStep is the key of a summary's reservation: it does not meet that of the
// model call of the same step.
func summaryStep(step int) int { return -step }

// BeginSummary makes an attempt at a summary current, or returns the stored one.
func (s *Store) BeginSummary(ctx context.Context, r memory.SummaryBegin) (memory.SummaryStart, error) {
	return writing(ctx, s, "begin-summary", func(u *Unit) (start memory.SummaryStart) {
		t, turn := u.Open(r.ThreadID, r.TurnID)
		turn.Cancelled()
		u.beginSummary(t, r, &start)
		start.Thread = u.View(t)
		start.Turn = turn.Turn
		return start
	})
}

func (u *Unit) beginSummary(t *rows.Thread, r memory.SummaryBegin, start *memory.SummaryStart) {
	if r.Step < 1 || !r.Cause.Valid() {
		rows.Refuse(agent.CodeInvalid, "a summary of step %d for cause %q is not possible", r.Step, r.Cause)
	}
	row := u.summary(r.TurnID, r.Step, r.Cause)
	begin := memory.ModelBegin{TurnID: r.TurnID, Step: summaryStep(r.Step), Budget: r.Budget}
	switch {
	case row == nil:
		u.reserveFor(t, begin)
		row = &rows.Summary{State: rows.StepFlight, Created: t.At, Summary: memory.Summary{
			ThreadID: t.ID, TurnID: r.TurnID, Step: r.Step, Cause: r.Cause, Attempts: 1,
		}}
		row.Fence.Fence = r.Fence
		start.Attempt = 1
		u.Exec(insertSummary, rows.Values(row.Targets())...)
		return
	case row.State == rows.StepStored:
		start.Attempt, start.Stored = row.Attempts, new(rows.ViewSummary(row))
		return
	case row.State == rows.StepFlight && row.Fence.Repeats(r.Fence):
		start.Attempt = row.Attempts
		return
	}
	if !row.Fence.Admit(r.Fence) {
		rows.Check(memory.Stale("attempt %d of activity %s is older than the current one of the summary of turn %s", r.Fence.Number, r.Fence.Scope, r.TurnID))
	}
	if lost := row.Attempts - row.Failed; lost >= cmp.Or(r.MaxLost, rows.DefaultMaxLost) {
		rows.Refuse(agent.CodeLimit, "making a summary for step %d of turn %s killed its worker %d times: it is not tried again", r.Step, r.TurnID, lost)
	}
	u.reserveFor(t, begin)
	row.Attempts++
	row.State = rows.StepFlight
	start.Attempt = row.Attempts
	u.Exec(updateSummary, rows.Values(row.Targets())...)
}

// currentSummary is the summary row of an attempt; another attempt's is stale.
func (u *Unit) currentSummary(threadID, turnID string, step int, cause memory.Cause, attempt int) (*rows.Thread, *rows.Turn, *rows.Summary) {
	t, turn := u.Open(threadID, turnID)
	row := u.summary(turnID, step, cause)
	if row == nil || row.Attempts != attempt {
		rows.Check(memory.Stale("attempt %d at the summary of step %d of turn %s is not the current one", attempt, step, turnID))
	}
	return t, turn, row
}

// FailSummary records what a failed attempt cost.
func (s *Store) FailSummary(ctx context.Context, r memory.SummaryFailure) error {
	return s.write(ctx, "fail-summary", func(u *Unit) {
		t, turn, row := u.currentSummary(r.ThreadID, r.TurnID, r.Step, r.Cause, r.Attempt)
		if row.State != rows.StepFlight {
			return
		}
		row.State = rows.StepFailed
		row.Failed++
		u.charge(t, turn, summaryStep(r.Step), r.Usage, r.Duration)
		if r.Wait != nil { // the step's call waits for the summary
			if step := u.Step(r.TurnID, r.Step); step != nil {
				u.holdModel(t, turn, step, memory.ModelFailure{NotCalled: r.NotCalled, Wait: r.Wait})
				u.SaveStep(step)
			}
		}
		u.Exec(updateSummary, rows.Values(row.Targets())...)
	})
}

// SaveSummary stores a summary, once.
func (s *Store) SaveSummary(ctx context.Context, r memory.SummaryRecord) (memory.Summary, error) {
	return writing(ctx, s, "summary", func(u *Unit) memory.Summary {
		t, turn, row := u.currentSummary(r.ThreadID, r.TurnID, r.Step, r.Cause, r.Attempt)
		if row.State == rows.StepStored {
			return rows.ViewSummary(row)
		}
		if row.State == rows.StepFailed {
			rows.Check(memory.Stale("attempt %d at the summary of step %d of turn %s has failed", r.Attempt, r.Step, r.TurnID))
		}
		if r.ReplacesTo > t.LastMessage || r.ReplacesFrom > r.ReplacesTo || r.ReplacesTo < t.SummaryTo {
			rows.Refuse(agent.CodeInvalid, "a summary of messages %d to %d of thread %s is not possible: it has %d, and %d are summarised already",
				r.ReplacesFrom, r.ReplacesTo, t.ID, t.LastMessage, t.SummaryTo)
		}
		row.State = rows.StepStored
		row.ReplacesFrom, row.ReplacesTo, row.LastSeq = r.ReplacesFrom, r.ReplacesTo, t.LastMessage
		row.Text, row.Window, row.Model, row.Created = rows.Clean(r.Text), r.Window, r.Model, t.At
		row.Used = rows.Must(rows.Encode(r.Usage))
		u.charge(t, turn, summaryStep(r.Step), r.Usage, r.Duration)
		t.Compactions++
		t.Dirty = true // also where nothing was left out, called or logged
		if row.Text != "" {
			t.SummaryFrom, t.SummaryTo = row.ReplacesFrom, row.ReplacesTo
			u.Event(t, turn.ID, agent.EventContextSummary, rows.ContextSummaryEvent{ReplacesFrom: row.ReplacesFrom, ReplacesTo: row.ReplacesTo, Summary: row.Text})
		}
		u.Exec(updateSummary, rows.Values(row.Targets())...)
		return rows.ViewSummary(row)
	})
}

// charge counts what a call to a model used and settles its reservation. No call
// was made if it has no requests.
func (u *Unit) charge(t *rows.Thread, turn *rows.Turn, step int, use agent.Usage, took time.Duration) {
	if use.Requests > 0 {
		turn.Usage, turn.Dirty = turn.Usage.Add(use), true
		t.Count(use)
		u.use(t, use, took)
	}
	u.settleReservation(turn.ID, step)
}

package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// holdModel keeps when the call of a failed attempt is made again, and logs it.
// What a limiter holds back for a moment, again and again, is not logged.
func (u *unit) holdModel(t *threadRow, turn *turnRow, step *stepRow, r memory.ModelFailure) error {
	step.wait = ""
	if r.Wait == nil {
		return nil
	}
	name, err := u.agentName(t)
	if err != nil {
		return err
	}
	w := *r.Wait
	w.ThreadID, w.RootThread, w.TurnID, w.Agent, w.Reason = t.ID, t.RootThreadID, turn.ID, name, clean(w.Reason)
	if step.wait, err = encode(w); err != nil {
		return err
	}
	if now := stamp(u.now); !r.NotCalled || w.Until.Sub(now) >= agent.ShortWait {
		return u.surface(t, turn, agent.EventWarning, agent.Warning{Code: agent.WarnModelWait, Message: w.Text(now.UTC()), Wait: &w})
	}
	return nil
}

// ModelWaits lists the model calls that are to be made again.
func (s *Store) ModelWaits(ctx context.Context, f memory.WaitFilter) (waits []agent.ModelWait, err error) {
	where, args := peopleFilter(f.UserID, "", f.RootThread)
	if f.ThreadID != "" {
		where, args = where+" AND t.id = ?", append(args, f.ThreadID)
	}
	type row struct{ body string }
	err = s.read(ctx, func(q *reader) error {
		waits, err = list(q, "", func(r *row) []any { return []any{&r.body} },
			func(r *row) (w agent.ModelWait, err error) {
				err = json.Unmarshal([]byte(r.body), &w)
				return w, err
			},
			`SELECT s.wait FROM steps s JOIN turns n ON n.id = s.turn_id JOIN threads t ON t.id = n.thread_id AND t.open_turn = n.id`+
				` WHERE s.state = 'failed' AND s.wait <> '' AND `+where, args...)
		return err
	})
	slices.SortFunc(waits, func(a, b agent.ModelWait) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ThreadID, b.ThreadID))
	})
	return waits, err
}

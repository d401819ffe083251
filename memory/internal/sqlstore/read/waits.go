package read

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// ModelWaits lists the model calls that are to be made again.
func (s *Store) ModelWaits(ctx context.Context, f memory.WaitFilter) (waits []agent.ModelWait, err error) {
	where, args := peopleFilter(f.UserID, "", f.RootThread)
	if f.ThreadID != "" {
		where, args = where+" AND t.id = ?", append(args, f.ThreadID)
	}
	type row struct{ body string }
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		waits, err = rows.List(q, "", func(r *row) []any { return []any{&r.body} },
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

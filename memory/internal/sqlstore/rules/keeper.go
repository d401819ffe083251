package rules

import (
	"context"
	"time"

	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// CleanUp takes sub-agents that ended before from the lists of sub-agents.
func (s *Store) CleanUp(ctx context.Context, userID string, age time.Duration) (n int, err error) {
	err = s.write(ctx, "clean-up", func(u *Unit) error {
		old, err := u.Strings(`SELECT id FROM threads WHERE kind = 'subagent' AND `+rows.Ended+` AND waiting = 0 AND updated_at <= ?`+
			` AND (user_id = ? OR ? = '') AND NOT EXISTS (SELECT 1 FROM forgotten g WHERE g.thread_id = threads.id)`,
			u.Now-age.Milliseconds(), userID, userID)
		if err != nil {
			return err
		}
		for _, id := range old {
			if err := u.Exec(`INSERT INTO forgotten (thread_id, at) VALUES (?, ?) ON CONFLICT (thread_id) DO NOTHING`, id, u.Now); err != nil {
				return err
			}
		}
		n = len(old)
		return nil
	})
	return n, err
}

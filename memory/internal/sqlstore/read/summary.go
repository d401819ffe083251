package read

import (
	"context"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Summaries lists a thread's stored summaries in the order they were made.
func (s *Store) Summaries(ctx context.Context, threadID string) (summaries []memory.Summary, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		summaries, err = rows.List(q, threadID, (*rows.Summary).Targets, rows.ViewSummary,
			rows.SelectSummary+` WHERE thread_id = ? AND state = 'stored' ORDER BY last_seq, to_seq, created_at, cause`, threadID)
		return err
	})
	return summaries, err
}
